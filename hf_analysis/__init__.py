"""Pretrained models: problems, conditions, and the exact entropy of every head.

    from pathlib import Path
    from hf_analysis import load_model, load_problems, measure

    model, problems = load_model("builtin"), load_problems("builtin", limit=8)
    table = measure(model, problems, ("cot", "no_cot"), Path("runs/smol"))

load_model, LoadedModel              the built-in model, a directory, a .gguf file or a hub id, with its tokenizer
load_problems, Problem               the built-in problems, a file or a hub dataset: question, solution, answer
measure                              every head on every problem under every condition, as rows; resumable
trace, load_traces                   what each sentence of a reasoning trace does; traces from files
record, Recording                    one batch of tokens through a model you hold: every row of every head
intercepting                         your own function in place of a model's attention
measure_heads                        which heads are of a known kind: induction, sink, copying, ...
knocked_out, ablated                 contexts: a model that cannot attend along some edges, or lacks some heads
Passage, Context, register_condition what a model may read after the question, and how yours becomes known
Selection, register_scope            over which of its tokens statistics are reduced, and how yours becomes known
permuted, untrained                  baselines: the same model with its weights shuffled, or fresh ones

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from probes.base.lazy import lazy_names

if TYPE_CHECKING:
    from hf_analysis.attention.intercept import intercepting
    from hf_analysis.attention.recorder import Recording, record
    from hf_analysis.causal.ablation import ablated
    from hf_analysis.causal.knockout import knocked_out
    from hf_analysis.measurement.heads import measure_heads
    from hf_analysis.measurement.measure import measure
    from hf_analysis.models.baselines import permuted, untrained
    from hf_analysis.models.loading import LoadedModel, load_model
    from hf_analysis.text.conditions import Context, Passage
    from hf_analysis.text.conditions import register as register_condition
    from hf_analysis.text.problems import Problem, load_problems
    from hf_analysis.text.scopes import Selection, register_scope
    from hf_analysis.text.traces import load_traces
    from hf_analysis.traces.tracing import trace

__all__ = [
    "Context",
    "LoadedModel",
    "Passage",
    "Problem",
    "Recording",
    "Selection",
    "ablated",
    "intercepting",
    "knocked_out",
    "load_model",
    "load_problems",
    "load_traces",
    "measure",
    "measure_heads",
    "permuted",
    "record",
    "register_condition",
    "register_scope",
    "trace",
    "untrained",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    __file__,
    moved={
        "hf_analysis.conditions": "hf_analysis.text.conditions",
        "hf_analysis.problems": "hf_analysis.text.problems",
        "hf_analysis.recorder": "hf_analysis.attention.recorder",
        "hf_analysis.intercept": "hf_analysis.attention.intercept",
        "hf_analysis.finetune": "hf_analysis.finetuning",
        "hf_analysis.models.load_model": "hf_analysis.models.loading.load_model",
        "hf_analysis.models.LoadedModel": "hf_analysis.models.loading.LoadedModel",
    },
)
