"""How much of a row goes to its most attended key, of those behind the first? In many heads that one is the sink."""

from probes.attention.statistics import Counts, Values, register


@register(
    label="largest attention weight without the first token",
    reductions=("mean", "max", "length_matched_max", "min", "q10", "length_matched_min"),
    high=1.0,
    sparser="higher",
)
def top1_mass_without_sink(top1_mass_without_sink: Values, n_visible_without_sink: Counts) -> Values:
    """The largest weight of the row without key 1, renormalised; in (0, 1], for rows with two such keys."""
    return top1_mass_without_sink.masked_fill(n_visible_without_sink < 2, float("nan"))
