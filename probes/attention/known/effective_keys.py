"""Over how many keys does a row spread? In keys, so that texts of different length compare without a logarithm."""

from probes.attention.statistics import Values, register


@register(
    label="effective number of keys",
    unit="keys",
    reductions=("min", "mean", "q10", "length_matched_min"),
    low=1.0,
)
def effective_keys(entropy: Values) -> Values:
    """exp(H), H in nats: a row that spreads evenly over n keys has n; in [1, visible keys]."""
    return entropy.exp()
