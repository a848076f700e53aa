"""A run of traces, measured with a tiny model: what `cotlens trace` leaves, with text that would do harm."""

import json
from pathlib import Path

from hf_analysis.models.generation import Decoding
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.traces import Trace
from hf_analysis.traces.measures import Study
from hf_analysis.traces.tokens import trace_tokens
from hf_analysis.traces.tracing import measure_traces
from interp.core.trace_summary import summary
from probes.base.atomic import write_json
from tests.hf_analysis.tiny_models import build, byte_tokenizer
from tests.interp.report.synthetic import HOSTILE

STEPS = ("So 3 + 4 = 7. ", "Wait, is it right? ", "Half of 7 is 3.5. ", "She has 12 now. ", "That is all. ")
MEASURES = ("attention", "suppression", "faithfulness", "continued")


def made(name: str, steps: tuple[str, ...]) -> Trace:
    parts = (
        ("question", f"Ann has 3. {HOSTILE[1]}"),
        ("", "\n"),
        ("reasoning", "".join(steps).strip()),
        ("", "\n"),
        ("answer", "The answer is 12."),
    )
    return Trace(name, parts, "12")


def trace_run(out: Path) -> Path:
    """Two traces, of which the first keeps every head; one has every hostile text as a step."""
    model = LoadedModel("tiny", build("llama"), byte_tokenizer())
    hostile = tuple(f"It is {i} {text}. " for i, text in enumerate(HOSTILE))
    traces = [trace_tokens(model, made("plain", STEPS)), trace_tokens(model, made("<b>bad</b>", hostile))]
    study = Study(
        model, traces, "tiny", gap=1, rotations=1, keep=frozenset({"plain"}), decoding=Decoding(max_new_tokens=2)
    )
    found = summary(measure_traces(study, MEASURES, out), top=4)
    found["too_short_for_receiver_heads"] = 0
    for place, one in enumerate(found["receiver_heads"]):
        one["p_rotated"] = 0.0004 if place == 0 else 0.25  # what many traces would give
    write_json(out / "trace.json", found)
    config = {"command": "trace", "model": "<b>tiny</b>", "gap": 1}
    (out / "config.json").write_text(json.dumps({"config": config, "provenance": {}}))
    return out
