"""How much of a row goes to no key at all, but to the score that a head has learned for that (GPT-OSS)?"""

from probes.attention.statistics import Values, register


@register(
    label="attention on the learned sink",
    reductions=("mean",),
    metric="{statistic}",
    high=1.0,
    sparser="higher",
)
def learned_sink_mass(learned_sink_mass: Values) -> Values:
    """The mass that a learned sink takes from a row, in [0, 1); zero in models without one.

    Every other statistic is over the keys, renormalised without this mass.
    """
    return learned_sink_mass
