"""What is measured: tensors in, numbers out. Imports nothing of ours.

    from probes import row_entropy, normalised_entropy, length_matched_min

of attention patterns [batch head query key]
    row_entropy, normalised_entropy    nats, and as a share of log(visible keys)
    length_matched_min                 the minimum that a text of m tokens would have had
    dependency_mass, top1_hit          attention on the keys that a mask names; `without_self` leaves the query out
    row_statistics                     the same from queries and keys, without the pattern
    register_statistic                 a new statistic of attention rows, for every measurement and report
of hooked models (TransformerLens)
    AttentionMeter                     every head against a dependency mask, batch by batch
    linear_probe, ActivationStream     what is decodable where, with its controls; activations one hook at a time
    knock_out, ablate_heads, patch_heads    what the answer needs: edges, heads, heads of another input
    answer_margin                      how far the right answer is ahead, which those three read

`probes.rows` is the table that every measurement goes into. Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from probes.base.lazy import lazy_names

if TYPE_CHECKING:
    from probes.attention.computation import row_statistics
    from probes.attention.dependence import dependency_mass, top1_hit, without_self
    from probes.attention.entropy import length_matched_min, normalised_entropy, row_entropy
    from probes.attention.meter import AttentionMeter
    from probes.attention.statistics import register as register_statistic
    from probes.hooked.causal import ablate_heads, answer_margin, knock_out, patch_heads
    from probes.hooked.linear import linear_probe
    from probes.hooked.stream import ActivationStream

__all__ = [
    "ActivationStream",
    "AttentionMeter",
    "ablate_heads",
    "answer_margin",
    "dependency_mass",
    "knock_out",
    "length_matched_min",
    "linear_probe",
    "normalised_entropy",
    "patch_heads",
    "register_statistic",
    "row_entropy",
    "row_statistics",
    "top1_hit",
    "without_self",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    __file__,
    moved={
        "probes.dependence": "probes.attention.dependence",
        "probes.entropy": "probes.attention.entropy",
        "probes.row_statistics": "probes.attention.computation",
        "probes.attention.AttentionMeter": "probes.attention.meter.AttentionMeter",
        "probes.causal": "probes.hooked.causal",
        "probes.linear": "probes.hooked.linear",
        "probes.stream": "probes.hooked.stream",
        "probes.plugins": "probes.base.plugins",
        "probes.atomic": "probes.base.atomic",
    },
)
