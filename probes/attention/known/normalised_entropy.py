"""How evenly does a row spread over the keys it sees? Its minimum over tokens is wen2024's equation 1."""

from probes.attention.statistics import Counts, Values, register


@register(
    label="normalised entropy",
    reductions=("min", "mean", "q10", "length_matched_min"),
    metric="{reduction}",
    high=1.0,
)
def normalised_entropy(entropy: Values, n_visible: Counts) -> Values:
    """H / log(visible keys), in [0, 1]."""
    from probes.attention.entropy import normalised_entropy

    return normalised_entropy(entropy, n_visible)
