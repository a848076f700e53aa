"""How much of a row goes to its most attended key?"""

from probes.attention.statistics import Values, register


@register(
    label="largest attention weight",
    reductions=("mean", "max", "length_matched_max", "min", "q10", "length_matched_min"),
    high=1.0,
    sparser="higher",
)
def top1_mass(top1_mass: Values) -> Values:
    """The largest weight of the row, in (0, 1]."""
    return top1_mass
