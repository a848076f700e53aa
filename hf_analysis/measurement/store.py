"""Where does a measurement live, and how does it survive a kill?

out/fingerprint.json             what is measured; a resume that would measure something else is refused
out/problems/<problem>.parquet   the rows of one finished problem, and which versions measured it; written whole
out/tokens/<problem>.parquet     its values token by token, for the first `keep_tokens` problems
out/rows.parquet, or the directory out/rows where memory would not hold them (`probes.parts`)
out/tokens.parquet, out/passages.jsonl, out/generated.jsonl, out/measurement.json    at the end

What the model wrote stands with its rows in the file of the problem, and once more in generated.jsonl: text, tokens,
outcome.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from hf_analysis.measurement.kept_tokens import COLUMNS
from hf_analysis.measurement.request import Request
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import Problem, paper_quirks
from probes import parts, rows
from probes.base.atomic import remove_leftovers, write_file, write_json, write_text
from probes.base.identity import DECIDING, admit, require_same_versions, versions

FINGERPRINT = "fingerprint.json"
UNSAID_METRICS = [
    "min", "mean", "q10", "length_matched_min", "sink_mass", "sink_excluded_min", "sink_excluded_mean",
]  # fmt: skip
"""The usual metrics of the versions that did not name them in their records, whatever is usual now."""
UNSAID_PAPER_METRICS = ["min"]
PASSAGES = "passages.jsonl"
"""Every text by problem and condition, with how its tokens are divided (`tokens_of`)."""
GENERATED = "generated.jsonl"
"""Every text that the model wrote, with its tokens and what became of it."""


def fingerprint(model: LoadedModel, run: str, request: Request) -> dict[str, Any]:
    """What decides the texts and how they are read, in words or as digests; `Measurer` adds what is measured."""
    return {
        "run": run,
        "model": model.name,
        "weights": model.digest,
        "data": problems_digest(request.problems),
        "n_problems": len(request.problems),
        "conditions": list(request.conditions),
        "seed": request.seed,
        "keep_tokens": request.keep_tokens,
        "paper_mode": request.paper_mode,
        "share": request.share,
        "scopes": list(request.scopes),
        **({} if request.pairs is None else {"pairs": sorted(map(sorted, request.pairs))}),
        **({"chat": True, "thinking": request.thinking} if request.chat else {}),
        **({"decoding": asdict(request.decoding)} if request.own else {}),
        # earlier versions paired texts of different samples: their rows must not be mixed with ours
        **({"averaged": "over common samples"} if len(request.own) > 1 and request.decoding.samples > 1 else {}),
    }


def unsaid(identity: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """What records of earlier versions left unsaid of a measurement with this `identity`, as far as it is known.

    They named no metrics if these were the usual ones, and never a batch size: that it was the default is believed
    where the default is asked for.
    """
    known: dict[str, Any] = {"metrics": UNSAID_PAPER_METRICS if request.paper_mode else UNSAID_METRICS}
    if request.batch_size is None:
        known["batch_size"] = identity.get("batch_size")
    return {name: value for name, value in known.items() if name in identity}


def problems_digest(problems: Sequence[Problem]) -> str:
    """A fingerprint of problems in their order: 16 hex digits."""
    text = json.dumps([[p.id, p.question, p.solution, p.answer] for p in problems])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def safe_name(identity: str) -> str:
    """A file name for a problem id: readable where possible, unique even where case is folded."""
    readable = re.sub(r"[^a-z0-9_-]+", "_", identity.lower())[:80]
    if readable and readable == identity:
        return identity
    return f"{readable or 'problem'}.{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


class Store:
    """The files of one measurement under `out`."""

    def __init__(self, out: Path, request: Request) -> None:
        self.out, self.request, self.problems = out, request, request.problems
        self.done: set[str] = set()

    def open(self, identity: dict[str, Any], resume: bool) -> None:
        """Starts the directory, or takes up what an earlier run of the same measurement finished."""
        earlier = unsaid(identity, self.request)
        admit(self.out, identity, resume, record=FINGERPRINT, among=(FINGERPRINT, "problems"), earlier=earlier)
        remove_leftovers(self.out)
        remove_leftovers(self.out / "problems")
        remove_leftovers(self.out / "tokens")
        self.done = {problem.id for problem in self.problems if self._file("problems", problem).exists()}
        if 0 < self.n_done < len(self.problems):
            self._require_same_versions()

    def _require_same_versions(self) -> None:
        """A ValueError if other versions measured what is finished; those that did not say so are believed."""
        finished = next(problem for problem in self.problems if self.has(problem))
        require_same_versions(self.out, rows.read(self._file("problems", finished)).attrs.get("versions", {}))

    @property
    def n_done(self) -> int:
        return len(self.done)

    def has(self, problem: Problem) -> bool:
        return problem.id in self.done

    def write_tokens(self, problem: Problem, table: pd.DataFrame) -> None:
        rows.write_table(self._file("tokens", problem), table)

    def write(self, problem: Problem, table: pd.DataFrame, facts: dict[str, Any]) -> None:
        """Marks `problem` as finished; pandas stores `facts`, its texts among them, in the file's metadata."""
        table.attrs = {**facts, "versions": versions(DECIDING)}
        rows.write(self._file("problems", problem), table)
        self.done.add(problem.id)

    def finish(self, whole: bool = True) -> pd.DataFrame:
        """Merges everything in the order of the problems and writes the merged files; the rows only if `whole`."""
        facts: list[dict[str, Any]] = []
        merged = rows.concat(list(self._tables(facts)))
        self._write_others(facts)
        if whole:
            rows.write(self.out / "rows.parquet", merged)  # last: it says that the measurement is complete
        return merged

    def finish_parts(self, directory: str = parts.PARTS) -> parts.Parts:
        """The same for rows that memory would not hold: problem by problem, into one file by metric and scope."""
        facts: list[dict[str, Any]] = []
        written = parts.write_parts(self.out / directory, self._tables(facts))
        self._write_others(facts)
        return written

    @property
    def n_rows(self) -> int:
        """How many rows all finished problems have."""
        return sum(rows.n_rows(self._file("problems", problem)) for problem in self.problems)

    def _tables(self, facts: list[dict[str, Any]]) -> Iterator[pd.DataFrame]:
        """The rows of every problem; what is known beside them is added to `facts`."""
        for problem in self.problems:
            table = rows.read(self._file("problems", problem))
            facts.append(self._facts(problem, table))
            table.attrs = {}
            yield table

    def _write_others(self, facts: Sequence[dict[str, Any]]) -> None:
        """All merged files but the rows."""
        if self.request.kept:
            files = [self._file("tokens", problem) for problem in self.request.kept]
            kept = [rows.read_table(file) for file in files if file.exists()]  # none of a problem without a text
            tokens = pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=list(COLUMNS))
            rows.write_table(self.out / "tokens.parquet", tokens)
        summary: dict[str, Any] = {
            "forwarded_tokens": sum(fact["forwarded_tokens"] for fact in facts),
            "unshared_tokens": sum(fact["unshared_tokens"] for fact in facts),
            "layouts": sorted({fact["layout"] for fact in facts}),
            "paths": sorted({path for fact in facts for path in fact["paths"]}),
        }
        made_by = [fact.get("versions", "unsaid: an earlier version of cotlens") for fact in facts]
        summary["versions"] = [one for i, one in enumerate(made_by) if one not in made_by[:i]]
        self._write_passages(facts)
        counted = {scope: sum(scope in fact.get("set_aside", ()) for fact in facts) for scope in self.request.scopes}
        summary["set_aside"] = {scope: n for scope, n in counted.items() if n}
        summary["left_out"] = dict(Counter(name for fact in facts for name in fact.get("left_out", ())))
        if self.request.paper_mode:
            summary["paper_quirks"] = paper_quirks(self.problems)
        if self.request.own:
            texts = [text for fact in facts for text in fact["generated"]]
            write_text(self.out / GENERATED, "".join(json.dumps(text) + "\n" for text in texts))
            summary["outcomes"] = dict(Counter(text["outcome"] for text in texts))
        write_json(self.out / "measurement.json", summary)

    def _write_passages(self, facts: Sequence[dict[str, Any]]) -> None:
        """Every text that was read, one line of JSON each, in ASCII: nothing in a text can end its line."""
        lines = [
            json.dumps({"problem": problem.id, **passage}) + "\n"
            for problem, fact in zip(self.problems, facts)
            for passage in fact.get("passages", ())
        ]
        if lines:
            text = "".join(lines)
            write_file(self.out / PASSAGES, lambda temporary: Path(temporary).write_text(text, encoding="ascii"))

    def _facts(self, problem: Problem, table: pd.DataFrame) -> dict[str, Any]:
        if not table.attrs.keys() >= {"forwarded_tokens", "unshared_tokens", "layout", "paths"}:
            raise ValueError(f"{self._file('problems', problem)} is damaged: it lacks the facts beside its rows")
        return table.attrs

    def _file(self, folder: str, problem: Problem) -> Path:
        return self.out / folder / f"{safe_name(problem.id)}.parquet"
