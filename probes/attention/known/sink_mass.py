"""How much of a row goes to the first token, where many heads park their attention?"""

from probes.attention.statistics import Values, register


@register(
    label="attention on the first token",
    reductions=("mean",),
    metric="{statistic}",
    high=1.0,
    sparser="higher",
)
def sink_mass(sink_mass: Values) -> Values:
    """The weight of key 1, in [0, 1]."""
    return sink_mass
