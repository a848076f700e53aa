"""Which heads are of which kind? Maps of every head's score."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from interp.figures.style import VERMILION, new_figure, styled


def kind_maps(scores: Mapping[str, Float[np.ndarray, "layer head"]], top: int) -> Figure:
    """One layer x head map per kind, each on its own scale from 0; rings mark its `top` heads."""
    n_layers, n_heads = next(iter(scores.values())).shape
    with styled(grid=False):
        figure = new_figure(2.5 * len(scores) + 0.4, max(2.8, 0.13 * n_layers + 1.6))
        grid = figure.subplots(1, len(scores), squeeze=False, sharey=True)[0]
        for axes, (kind, values) in zip(grid, scores.items()):
            image = axes.imshow(
                values, cmap="Blues", vmin=0, vmax=max(float(values.max()), 1e-6), aspect="auto", origin="lower"
            )
            best = np.argsort(values, axis=None)[::-1][:top]
            layer, head = np.unravel_index(best, values.shape)
            axes.scatter(head, layer, s=30, facecolors="none", edgecolors=VERMILION, linewidths=1.3)
            axes.set_title(kind.replace("_", " "), fontsize=9)
            axes.set_xlabel("head", fontsize=8)
            axes.set_xticks(range(0, n_heads, max(1, n_heads // 8)))
            few = MaxNLocator(4)
            bar = figure.colorbar(image, ax=axes, orientation="horizontal", shrink=0.9, pad=0.02, ticks=few)
            bar.ax.tick_params(labelsize=7)
        grid[0].set_ylabel("layer")
        figure.suptitle(
            f"Attention on the keys of each kind, mean over problems (rings: the {top} highest); copying: minus the "
            "attention on other numbers",
            fontsize=9,
        )
    return figure
