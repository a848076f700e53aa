"""How evenly does a row spread over the keys behind the first? A sink hides how diffuse the rest is."""

from probes.attention.statistics import Counts, Values, register


@register(
    label="normalised entropy without the first token",
    reductions=("min", "mean", "q10", "length_matched_min"),
    metric="sink_excluded_{reduction}",
    high=1.0,
)
def normalised_entropy_without_sink(entropy_without_sink: Values, n_visible_without_sink: Counts) -> Values:
    """H / log(visible keys) of the row without key 1, renormalised, in [0, 1]."""
    from probes.attention.entropy import normalised_entropy

    return normalised_entropy(entropy_without_sink, n_visible_without_sink)
