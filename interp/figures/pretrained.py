"""What does the pretrained measurement look like? The paper's sorted bars, and the honest views beside them."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from interp.core.contrast import Contrast
from interp.figures.style import BLUE, GREEN, VERMILION, new_figure, styled
from interp.statistics import ALPHA


def sorted_bars(published: Contrast) -> Figure:
    """wen2024 Figures 6 and 7: the heads of each layer, sorted within each condition.

    Sorting destroys the pairing of heads: the k-th bar of one condition is another head than the k-th of the other.
    """
    cot, no_cot = published.first.mean(0), published.second.mean(0)
    n_layers, n_heads = cot.shape
    columns = min(6, n_layers)
    n_rows = -(-n_layers // columns)
    with styled():
        figure = new_figure(2.1 * columns, 1.45 * n_rows + 0.9)
        grid = figure.subplots(n_rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flatten()[n_layers:]:
            axes.set_visible(False)
        for layer, axes in enumerate(grid.flatten()[:n_layers]):
            place = np.arange(n_heads)
            axes.bar(place - 0.2, np.sort(cot[layer])[::-1], 0.4, color=BLUE, label="with CoT")
            axes.bar(
                place + 0.2, np.sort(no_cot[layer])[::-1], 0.4, color=VERMILION, hatch="///", label="without CoT"
            )
            axes.set_title(f"layer {published.layer_numbers[layer]}", fontsize=8)
            axes.set_xticks([])
            axes.set_ylim(0, 1)
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        figure.suptitle("As published: heads sorted within each condition", x=0.02, ha="left", fontsize=11)
        figure.supylabel("normalised attention entropy (minimum over tokens)", fontsize=9)
        figure.supxlabel("heads, sorted separately: bars at one place are different heads", fontsize=9)
    return figure


def paired_heads(contrasts: Mapping[str, Contrast], first_side: str = "CoT", quantity: str = "entropy") -> Figure:
    """Each head's mean under both conditions, paired: below the diagonal it is lower on the first side."""
    limit = max(
        1.0, *(float(side.mean(0).max()) for found in contrasts.values() for side in (found.first, found.second))
    )
    with styled():
        columns = min(3, len(contrasts))
        n_rows = -(-len(contrasts) // columns)
        figure = new_figure(3.3 * columns, 3.5 * n_rows)
        grid = figure.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=True).flatten()
        for axes in grid[len(contrasts) :]:
            axes.set_visible(False)
        for axes, (part, found) in zip(grid, contrasts.items()):
            first, second = found.first.mean(0), found.second.mean(0)
            clear = found.head_p_values() < ALPHA
            kinds = (
                (clear & (first < second), BLUE, "v", f"{first_side} clearly lower"),
                (clear & (first > second), VERMILION, "^", f"{first_side} clearly higher"),
                (~clear, "0.55", "o", "no clear difference"),
            )
            for chosen, colour, marker, label in kinds:
                share = f"{label} ({chosen.mean():.0%})"
                style = {"s": 13, "marker": marker, "color": colour, "alpha": 0.7, "linewidths": 0}
                axes.scatter(second[chosen], first[chosen], **style, label=share)
            axes.plot([0, limit], [0, limit], color="0.3", linewidth=0.8)
            axes.set_title(part, fontsize=9)
            axes.tick_params(labelbottom=True)  # the panel below may be missing
            axes.legend(fontsize=7, loc="upper left", handletextpad=0.2)
        figure.supxlabel(f"{quantity} under the comparison condition", fontsize=9)
        figure.supylabel(f"{quantity} with {first_side}", fontsize=9)
    return figure


def difference_maps(
    contrasts: Mapping[str, Contrast], label: str = "entropy difference, CoT minus comparison"
) -> Figure:
    """Layer x head maps of the mean difference; dots mark heads that differ at a familywise 5%."""
    limit = max(float(np.abs(found.differences.mean(0)).max()) for found in contrasts.values())
    with styled(grid=False):
        columns = min(3, len(contrasts))
        n_rows = -(-len(contrasts) // columns)
        figure = new_figure(3.3 * columns + 0.6, 4.2 * n_rows)
        grid = figure.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=True).flatten()
        for axes in grid[len(contrasts) :]:
            axes.set_visible(False)
        for axes, (part, found) in zip(grid, contrasts.items()):
            mean = found.differences.mean(0)
            axes.imshow(mean, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
            if found.layers and found.layers[-1] >= len(found.layers):  # a hybrid
                axes.set_yticks(range(len(found.layers)), map(str, found.layers))
            layer, head = np.nonzero(found.head_p_values() < ALPHA)
            axes.scatter(head, layer, s=5, color=GREEN, edgecolors="black", linewidths=0.3)
            axes.set_title(f"{part}\nmean {mean.mean():+.3f}", fontsize=9)
            axes.tick_params(labelbottom=True)  # the panel below may be missing
        figure.supxlabel("head (dot: clear difference, familywise 5% over heads)", fontsize=9)
        figure.supylabel("layer", fontsize=9)
        image = grid[0].images[0]
        figure.colorbar(image, ax=list(grid), label=label, shrink=0.7)
    return figure
