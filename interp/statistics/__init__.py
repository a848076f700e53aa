"""Is the effect real? Confidence intervals, tests, multiplicity corrections and power.

Numpy arrays in, frozen dataclasses out. Nothing here imports the rest of the suite. Every randomised function takes
`rng`, a numpy Generator or a seed.
"""

from interp.statistics.change import change_point, onset
from interp.statistics.crossed import crossed_mean
from interp.statistics.equivalence import Equivalence, n_for_power, paired_equivalence, power_of_paired_t
from interp.statistics.growth import (
    GrowthComparison,
    GrowthFit,
    exponential_over_power,
    growth_comparison,
    growth_fits,
    power_exponent,
)
from interp.statistics.interval import ALPHA, Interval, Outcome, decide
from interp.statistics.linearity import departure_from_line
from interp.statistics.means import (
    bootstrap_mean,
    cautious_mean,
    cluster_bootstrap,
    clustered_mean,
    paired_difference,
)
from interp.statistics.medians import median_interval
from interp.statistics.multiplicity import MaxT, benjamini_hochberg, benjamini_yekutieli, sign_flip_max_t
from interp.statistics.proportions import binomial_interval, binomial_p_value, proportion_difference

__all__ = [
    "ALPHA",
    "Equivalence",
    "GrowthComparison",
    "GrowthFit",
    "Interval",
    "MaxT",
    "Outcome",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "binomial_interval",
    "binomial_p_value",
    "bootstrap_mean",
    "cautious_mean",
    "change_point",
    "cluster_bootstrap",
    "clustered_mean",
    "crossed_mean",
    "decide",
    "departure_from_line",
    "exponential_over_power",
    "growth_comparison",
    "growth_fits",
    "median_interval",
    "n_for_power",
    "onset",
    "paired_difference",
    "paired_equivalence",
    "power_exponent",
    "power_of_paired_t",
    "proportion_difference",
    "sign_flip_max_t",
]
