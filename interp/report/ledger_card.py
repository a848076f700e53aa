"""What is in `results/`, for whoever loads it? A dataset card, and what the top README shows of it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interp.core.claim import load_claims
from interp.core.judgement import filled
from interp.report.ledger_pages import ledger_table, paper_lines
from probes.base.atomic import write_text

if TYPE_CHECKING:
    from interp.core.published import Published

COLUMNS = {
    "run": "which run measured it",
    "condition": "what is compared: cot, no_cot, an arm of the experiment",
    "unit": "unit of replication: seed or problem",
    "setting": 'what else varied, as "k=3 n=30"',
    "samples": "training sequences seen when it was measured",
    "update": "gradient updates made when it was measured",
    "layer": "layer, -1 where there is none",
    "head": "attention head, -1 where there is none",
    "query": "position that attends, -1 where there is none",
    "key": "position attended to, -1 where there is none",
    "metric": "what was measured",
    "scope": "which tokens were reduced over",
    "value": "the number",
    "n_tokens": "how many tokens were reduced over",
}
START, END = "<!-- findings: cotlens claims judge all --write -->", "<!-- end of findings -->"


HEADLINES = (
    "wen2024/mechanism-steps",
    "wen2024/mechanism-knockout",
    "wen2024/mechanism-running-parity",
    "li2024/fig4",
    "wang2025/cot-vs-curriculum",
)
"""Claims whose findings the top README tells, whichever way they went, besides those of `IN_SHORT`."""


IN_SHORT: tuple[tuple[str, Mapping[str, str], str], ...] = (
    (
        "wen2024/fig6-gsm8k",
        {"published": "supported", "permuted_published": "refuted", "sentence": "refuted"},
        "**In text:** as published, a small pretrained model's attention is sparser on GSM8K with CoT than without "
        "({published.estimate:.3f} of normalised entropy); so is it with permuted weights "
        "({permuted_published.estimate:.3f}), and over the same closing sentence it is not "
        "({sentence.estimate:+.3f}).",
    ),
    (
        "wen2024/fig6-finetune",
        {"published": "refuted", "alone": "supported", "over_no_cot": "inconclusive"},
        "**By training:** fine-tuning it on CoT makes attention over that sentence sparser ({alone.estimate:.3f}), "
        "but not measurably more than fine-tuning on the bare answers does ({over_no_cot.estimate:+.3f}).",
    ),
    (
        "wen2024/causal-sparsity",
        {"dense": "supported", "pressed_sparse": "refuted", "dense_learns": "supported", "misplaced": "supported"},
        "**As a cause:** a toy model that must attend to everything alike does not learn its chain in time, but one "
        "that is pressed to attend widely does ({dense_learns.estimate:.0%} of seeds), and one that is pressed to "
        "attend narrowly learns later or not at all: what counts is *where* attention goes, not how narrow it is.",
    ),
)
"""By claim: the outcomes of parts that a sentence rests on, and the sentence; left out where an outcome differs."""


BY_HAND = """import pandas as pd

rows = pd.read_parquet("results/wen2024/fig6-gsm8k/rows.parquet")
chosen = rows[(rows["run"] == "model") & (rows["metric"] == "min") & (rows["scope"] == "all")]
by_problem = chosen.pivot_table(index="unit", columns="condition", values="value")  # the mean over all heads
print((by_problem["cot"] - by_problem["no_cot"]).mean())                            # "as published" on its page"""
"""One estimate out of the published rows, without the suite; a test runs it."""


def dataset_card(found: Sequence["Published"]) -> str:
    """The card of `results/`: how to load it, its columns, and what each claim concluded."""
    configs = [
        line
        for one in found
        for line in (
            f"- config_name: {one.record.claim.replace('/', '-')}",
            f"  data_files: {one.record.claim}/rows.parquet",
        )
    ]
    example = found[0].record.claim
    return "\n".join(
        [
            *("---", "pretty_name: CoTLens measurements", "license: mit", "configs:", *configs, "---", ""),
            *("# What CoTLens measured", ""),
            "One folder for each claim: the rows that its judge reads, its judgement, figures, provenance, a page.",
            "`cotlens claims judge all` computes every judgement anew from these rows, without a model.",
            *("", paper_lines(found), "", "## Loading", "", "```python", "from datasets import load_dataset", ""),
            f'rows = load_dataset("parquet", data_files="results/{example}/rows.parquet")["train"]',
            *("```", "", "One number by hand, from the top of the repository:", "", "```python", BY_HAND, "```", ""),
            "Metrics and scopes are explained in [docs/measuring.md](../docs/measuring.md); layer and head -1 are no",
            "single head: a mean over all of them, or a value of the whole model.",
            *("", "## Columns", "", "| column | meaning |", "|---|---|"),
            *(f"| `{name}` | {meaning} |" for name, meaning in COLUMNS.items()),
            "",
            "Rows that neither a part nor a figure reads are left out: other metrics and evaluations, weights, and",
            "per-token tables; the command on each claim's page measures them again.",
            *("", "## Claims", "", ledger_table(found), ""),
        ]
    )


def in_short(found: Sequence["Published"], link: str) -> list[str]:
    """The sentences of `IN_SHORT` whose outcomes are the published ones."""
    verdicts = {one.record.claim: one.record.judgement.verdicts for one in found}
    return [
        f"- {filled(sentence, verdicts[claim_id])} ([{claim_id}]({link}{claim_id}/README.md))"
        for claim_id, needed, sentence in IN_SHORT
        if needed.items() <= {v.key: v.outcome for v in verdicts.get(claim_id, ())}.items()
    ]


def headlines(found: Sequence["Published"], link: str) -> str:
    """What was found in short, the findings of `HEADLINES` without their intervals, and a line for each paper."""
    records = {one.record.claim: one.record for one in found}
    lines = ["Is chain of thought sparser? In short:", "", *in_short(found, link), "", "And what does it do?", ""]
    for claim_id in HEADLINES:
        if claim_id in records:
            judgement = records[claim_id].judgement
            page = f"[{claim_id}]({link}{claim_id}/README.md)"
            said = load_claims()[claim_id].sentence
            estimates = re.sub(r" \[[^][]*\]", "", judgement.finding)
            lines.append(f"- **{judgement.conclusion.capitalize()}:** *{said}* {estimates} ({page})")
    return "\n".join([*lines, "", paper_lines(found, link)])


def with_findings(text: str, findings: str) -> str:
    """`text` with `findings` in place of what is between its two markers."""
    if text.count(START) != 1 or text.count(END) != 1 or text.index(END) < text.index(START):
        raise ValueError(f"the text must hold {START} and {END} once each and in this order")
    before, rest = text.split(START)
    return f"{before}{START}\n{findings}\n{END}{rest.split(END)[1]}"


def write_card(found: Sequence["Published"], results: Path) -> None:
    """Writes the card of `results`, and the findings into a README beside it that has a place for them."""
    write_text(results / "README.md", dataset_card(found))
    readme = results.parent / "README.md"
    if readme.is_file() and START in (text := readme.read_text(encoding="utf-8")):
        write_text(readme, with_findings(text, headlines(found, f"{results.name}/")))
