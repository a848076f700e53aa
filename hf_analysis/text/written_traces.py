"""Which traces does a model write itself? Its own continuation of each question, cut into reasoning and answer."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hf_analysis.models.generation import BATCH, Decoding
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.answers import stated_answer
from hf_analysis.text.chat import in_chat
from hf_analysis.text.own import CUE, OwnText, own_texts
from hf_analysis.text.problems import Problem
from hf_analysis.text.sentences import sentence_spans
from hf_analysis.text.traces import Trace, chat_parts, written_parts
from probes.base.atomic import write_text


def written_traces(
    model: LoadedModel,
    problems: Sequence[Problem],
    decoding: Decoding,
    seed: int,
    *,
    chat: bool = False,
    thinking: bool | None = None,
) -> tuple[list[Trace], Counter[str]]:
    """The traces that `model` writes, `decoding.samples` for each problem, and what became of all texts.

    A trace's target is the answer it states itself: what is asked is whether the reasoning leads there. Texts with
    fewer than two sentences of reasoning are left out, and counted as such.
    """
    asked = in_chat(model, problems, thinking) if chat else list(problems)
    found, outcomes = [], Counter()
    for start in range(0, len(problems), BATCH):
        part = range(start, min(start + BATCH, len(problems)))
        texts = own_texts(model, [asked[i] for i in part], decoding, seed, "" if chat else CUE)
        for i in part:
            for text in texts[problems[i].id]:
                trace = _trace(model, problems[i], text, decoding.samples, chat, thinking)
                outcomes[text.outcome] += 1
                if len(sentence_spans(trace.span("reasoning"))) < 2:
                    outcomes["left out: fewer than two sentences of reasoning"] += 1
                else:
                    found.append(trace)
    return found, outcomes


def _trace(
    model: LoadedModel, problem: Problem, text: OwnText, samples: int, chat: bool, thinking: bool | None
) -> Trace:
    prompt = chat_parts(model, problem.question, thinking) if chat else (("question", problem.question), ("", CUE))
    name = problem.id if samples == 1 else f"{problem.id} sample={text.sample}"
    return Trace(name, (*prompt, *written_parts(text.text)), stated_answer(text.text) or problem.answer)


def save_traces(path: Path, traces: Sequence[Trace]) -> None:
    """Writes traces to `path`, one line of JSON each, in ASCII."""
    lines = (json.dumps({"id": one.id, "parts": one.parts, "target": one.target}) + "\n" for one in traces)
    write_text(path, "".join(lines))


def saved_traces(path: Path) -> list[Trace]:
    """The traces that `save_traces` wrote; a ValueError names the file if it is damaged."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
        found = [
            Trace(one["id"], tuple((name, text) for name, text in one["parts"]), one["target"]) for one in records
        ]
        texts = [
            text for one in found for text in (one.id, one.target, *(word for part in one.parts for word in part))
        ]
        if not found or not all(isinstance(text, str) for text in texts):
            raise TypeError("it holds no traces")
        return found
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error!r}; choose another directory") from error
