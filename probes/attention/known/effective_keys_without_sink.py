"""Over how many keys behind the first does a row spread?"""

from probes.attention.statistics import Counts, Values, register


@register(
    label="effective number of keys without the first token",
    unit="keys",
    reductions=("min", "mean", "q10", "length_matched_min"),
    low=1.0,
)
def effective_keys_without_sink(entropy_without_sink: Values, n_visible_without_sink: Counts) -> Values:
    """exp(H), H in nats of the row without key 1, renormalised; in [1, visible keys - 1], with two such keys."""
    return entropy_without_sink.exp().masked_fill(n_visible_without_sink < 2, float("nan"))
