"""How spread out is a row, in nats? Not normalised: rows that see more keys are not divided by a larger logarithm."""

from probes.attention.statistics import Values, register


@register(label="entropy", unit="nats", reductions=("min", "mean", "q10", "length_matched_min"))
def entropy_nats(entropy: Values) -> Values:
    """H = -sum p log p, in [0, log(visible keys)]."""
    return entropy
