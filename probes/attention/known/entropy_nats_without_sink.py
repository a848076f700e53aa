"""How spread out is a row over the keys behind the first, in nats? Neither the sink nor a logarithm of the length."""

from probes.attention.statistics import Counts, Values, register


@register(
    label="entropy without the first token",
    unit="nats",
    reductions=("min", "mean", "q10", "length_matched_min"),
)
def entropy_nats_without_sink(entropy_without_sink: Values, n_visible_without_sink: Counts) -> Values:
    """H of the row without key 1, renormalised, in [0, log(visible keys - 1)], for rows with two such keys."""
    return entropy_without_sink.masked_fill(n_visible_without_sink < 2, float("nan"))
