"""What is in `results/`, for whoever loads it? A dataset card, and what the top README shows of it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interp.core.claim import load_claims
from interp.core.judgement import Conclusion, filled
from interp.report.ledger_pages import is_ours, ledger_table, paper_lines
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


Told = tuple[str, Mapping[str, str], str]
"""A claim, the outcomes of parts that a sentence about it rests on, and the sentence."""


IN_SHORT: tuple[Told, ...] = (
    (
        "wen2024/fig6-gsm8k",
        {
            "published": "supported",
            "permuted_published": "refuted",
            "sentence": "refuted",
            "permuted_sentence": "supported",
            "prose": "supported",
        },
        "**In text, the published difference is there, and most controls remove it or turn it round.** A small "
        "pretrained model reads GSM8K; its normalised entropy with CoT minus without is {published.estimate:+.3f} as "
        "published, and {permuted_published.estimate:+.3f} in a copy with permuted weights. Over one closing "
        "sentence that both texts share it is {sentence.estimate:+.3f} (permuted weights: "
        "{permuted_sentence.estimate:+.3f}), but there the text before it is longer with CoT; over that sentence "
        "after CoT minus after a story of equal length it is {prose.estimate:+.3f}. The least that counts is 0.01.",
    ),
    (
        "wen2024/fig6-finetune",
        {"published": "refuted", "alone": "supported", "over_no_cot": "inconclusive"},
        "**By training:** fine-tuning it on CoT makes attention over that sentence sparser ({alone.estimate:.3f}), "
        "but not measurably more than fine-tuning on the bare answers does ({over_no_cot.estimate:+.3f}).",
    ),
    (
        "wen2024/causal-sparsity",
        {
            "uniform_learns": "refuted",
            "dense_learns": "supported",
            "pressed_dense": "supported",
            "direct_dense": "supported",
            "sparse_learns": "refuted",
            "direct_sparse": "refuted",
            "given_cot": "supported",
        },
        "**As a cause:** in toy models low entropy was neither needed nor enough. With CoT (six bits, 300,000 "
        "samples) {uniform_learns.estimate:.0%} of {uniform_learns.n} seeds learn if attention is held uniform, but "
        "{dense_learns.estimate:.0%} with a loss that rewards wide attention, at {pressed_dense:10^} times the "
        "samples of free attention; {sparse_learns.estimate:.0%} rewarded as strongly for narrow attention, whose "
        "entropy ends at 0; and with attention fixed on the right bits {given_cot:10^} times the samples are enough. "
        "Without CoT (two bits, a million samples) {direct_dense.estimate:.0%} learn rewarded for wide attention, "
        "{direct_sparse.estimate:.0%} for narrow.",
    ),
)
"""What was found of the question that began it; a sentence is left out where an outcome differs."""


HEADLINES: tuple[Told, ...] = (
    (
        "wen2024/mechanism-steps",
        {"answer_steps": "supported", "answer_number_over": "supported"},
        "**The answer is read off the steps.** In a small pretrained model, cutting the answer's attention to all "
        "steps lowers its log-probability by {answer_steps.estimate:.1f} nats; cutting it to the answer's own number "
        "there lowers it by {answer_number_over.estimate:.1f} nats more than cutting as many tokens as near does.",
    ),
    (
        "wen2024/mechanism-knockout",
        {"only_2l2h": "supported", "others_1l1h": "supported"},
        "**Each step reads its own bit.** With it hidden a step fails and the others stay right, on average over "
        "steps, in {only_2l2h.estimate:.0%} of {only_2l2h.n} two-layer toy models, where another position could have "
        "passed it on; without exception for any step in {each_2l2h.estimate:.0%}. (Models of one layer and head "
        "decide: there that step must fail, and that no other does is found in {others_1l1h.estimate:.0%}.)",
    ),
    (
        "wen2024/mechanism-running-parity",
        {"by_mlp": "refuted", "after_mlp": "supported", "after_attention": "refuted"},
        "**The running parity is there before the MLP that should compute it.** A linear probe finds it after the "
        "MLP of its step in {after_mlp.estimate:.0%} of {after_mlp.n} toy models, and falls below an accuracy of 0.6 "
        "after that step's attention in {after_attention.estimate:.0%}.",
    ),
    (
        "li2024/fig4",
        {"icl_stays": "supported", "cot_right_fails": "supported", "icl_falls": "supported"},
        "**Steps rescue misleading examples.** Where the likeliest label among the examples is a wrong one, "
        "in-context learning errs in {icl_stays.estimate:.0%} of cases at best, and with CoT "
        "{cot_right_fails.estimate:.0%} of {cot_right_fails.n} toy models are right.",
    ),
    (
        "huang2025/fig1a-rate",
        {"c6_far": "supported", "apart": "inconclusive", "apart_after_12000": "supported"},
        "**How far a chain goes is partly a matter of time.** The task is a chain of states, x1 = g1(x0), x2 = "
        "g2(x1) and so on, with g from the cyclic group C6 or the symmetric group S5. Trained on chains of length 5 "
        "at the paper's rate, the median toy model of C6 ends with {c6_far.estimate:.0%} of those of length 160 "
        "right. S5, which the paper has fall short, is behind by {apart_after_12000.estimate:.2f} of them 12,000 "
        "steps after its loss first fell, and 36,000 after it by {apart.estimate:.2f} ({apart.n} seeds), which does "
        "not decide whether a gap stays.",
    ),
    (
        "wang2025/cot-vs-curriculum",
        {"alone": "supported", "saves_mixture": "supported", "saves_stagewise": "supported"},
        "**From answers alone, composing four hidden permutations is not learned.** A small decoder stays at chance "
        "in {alone.estimate:.0%} of {alone.n} seeds. (Beside the conclusion, as architecture and schedule differ "
        "too: training on easier hops takes {saves_mixture:10^} times (mixed) and {saves_stagewise:10^} times (in "
        "stages) the sequences of CoT, or more.)",
    ),
)
"""Claims that the top README tells of, whichever way they went: by these sentences, or, where an outcome differs, in
the words of the claim itself."""


NORMALISED = (
    "*normalised entropy* is 1 where a query attends evenly to all keys it sees, 0 where it attends to one; lower is "
    "*sparser*"
)
HOLDS: dict[Conclusion, str] = {
    "reproduced": "ours: holds",
    "partly reproduced": "ours: holds in part",
    "not reproduced": "ours: does not hold",
    "undecided": "ours: undecided",
}
"""What is said of a claim whose experiment the paper does not have."""


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
    by_id = {one.record.claim: one for one in found}
    told = {told[0]: _told(told, by_id.get(told[0])) for told in IN_SHORT}
    return [f"- {said} ([{claim_id}]({link}{claim_id}/README.md))" for claim_id, said in told.items() if said]


def _told(told: Told, one: "Published | None") -> str | None:
    """The sentence with its numbers; None where an outcome that it rests on is not the published one."""
    _, needed, sentence = told
    verdicts = one.record.judgement.verdicts if one else ()
    if needed.items() <= {v.key: v.outcome for v in verdicts}.items():
        return _estimates(filled(sentence, verdicts))
    return None


def _estimates(text: str) -> str:
    """The sentence without its intervals, which stand on the claim's page."""
    return re.sub(r" \[[-\d.e+, ∞−]*\]", "", text)


def headlines(found: Sequence["Published"], link: str) -> str:
    """What was found in short, what is told of `HEADLINES`, and a line for each paper."""
    by_id = {one.record.claim: one for one in found}
    asked = "Is attention sparser with chain of thought? In short"
    lines = [f"{asked} ({NORMALISED}):", "", *in_short(found, link), "", "And what does CoT do?", ""]
    for told in HEADLINES:
        claim_id = told[0]
        if claim_id in by_id:
            claim, judgement = load_claims()[claim_id], by_id[claim_id].record.judgement
            in_full = f"*{claim.sentence}* {_estimates(judgement.finding)}"
            page = f"[{claim_id}]({link}{claim_id}/README.md)"
            concluded = HOLDS[judgement.conclusion] if is_ours(claim) else judgement.conclusion
            lines.append(f"- {_told(told, by_id[claim_id]) or in_full} ({concluded}: {page})")
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
