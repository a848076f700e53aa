"""Which comparisons are made for Figure 6's claims? The published one, the controls, and what is beyond them.

`_fig6` says how they hang together, measures them and judges them.
"""

from dataclasses import dataclass

from interp.claims.wen2024._pretrained import SMALLEST, WHY_SMALLEST
from interp.core.contrast import Side
from interp.core.parts import Direction, Role

TRAINED, PERMUTED = "model", "permuted"
"""Runs of the table: the model, and the same with the entries of its weight matrices permuted."""
NATS = 0.05
WHY_NATS = f"{SMALLEST:g} of the normalised entropy, times the logarithm of the 150 or so tokens that are seen"
INFERS = (
    "section 4.3 infers from it that real-world CoT data has a sparser structure, which leads to sparser attention"
)


@dataclass(frozen=True)
class Comparison:
    """One statistic of two texts."""

    name: str
    first: Side
    second: Side
    what: str
    """What the difference is."""
    role: Role = "control"
    source: str = ""
    direction: Direction = "below"
    threshold: float = -SMALLEST
    margin: float | None = None
    why: str = WHY_SMALLEST

    @property
    def primary(self) -> bool:
        return self.role == "paper"


def _compared(first: str, second: str, metric: str, scope: str, run: str = TRAINED) -> tuple[Side, Side]:
    return Side(first, metric, scope, run), Side(second, metric, scope, run)


def _sentence_after(other: str, name: str, what: str) -> Comparison:
    return Comparison(
        f"same sentence, {name}",
        *_compared("cot_clean", other, "min", "final"),
        f"minimum over the closing sentence, after CoT minus after {what}",
    )


def _without_training(of: str, second: str, scope: str, first: str = "cot_clean") -> Comparison:
    return Comparison(
        f"permuted weights: {of}",
        *_compared(first, second, "min", scope, PERMUTED),
        f"the same difference in a model with permuted weights: {first} minus {second}, minimum, {scope}",
        direction="above",
        why=f"a difference of {SMALLEST:g} or more in a model that has learned nothing is no evidence of learning",
    )


COMPARISONS = {
    "published": Comparison(
        "as published", *_compared("cot", "no_cot", "min", "all"),
        "minimum over all tokens, with CoT minus without", role="paper",
        source="section 4.3 and Figure 6: the entropy is lower for With CoT data compared to No CoT data",
    ),
    "sentence": Comparison(
        "same sentence", *_compared("cot_clean", "no_cot", "min", "final"),
        "minimum over the closing sentence, after CoT minus after the question alone", role="paper",
        source=f"{INFERS}: so it must show in a sentence that both texts have",
    ),
    "no_sink": Comparison(
        "same sentence, without the sink", *_compared("cot_clean", "no_cot", "sink_excluded_min", "final"),
        "minimum over the closing sentence without the first key, after CoT minus after the question alone",
        role="paper", source=f"{INFERS}: attention on what is read, not on the first token",
    ),
    "position": Comparison(
        "same positions", *_compared("cot_clean", "no_cot", "min", "first"),
        "minimum over the first tokens after the question, as many as the sentence has, with CoT minus without",
        role="paper", source=f"{INFERS}: so it must show where both texts stand at the same positions",
    ),
    "relevance": Comparison(
        "relevance", *_compared("cot_clean", "swapped_clean", "min", "final"),
        "minimum over the closing sentence, after the problem's CoT minus after another problem's", role="paper",
        source=f"{INFERS}: the sparse dependence is that on the problem's own steps",
    ),
    "prose": _sentence_after("prose_clean", "after prose", "a story of equal length"),
    "steps": _sentence_after("shuffled_steps_clean", "steps out of order", "its lines in another order"),
    "tokens": _sentence_after("shuffled_tokens_clean", "tokens out of order", "its tokens in another order"),
    "filler": _sentence_after("filler_clean", "after filler", "equally many full stops"),
    "sentence_mean": Comparison(
        "same sentence, mean over tokens", *_compared("cot_clean", "no_cot", "mean", "final"),
        "mean over the closing sentence, after CoT minus after the question alone",
    ),
    "sentence_nats": Comparison(
        "same sentence, in nats", *_compared("cot_clean", "no_cot", "entropy_nats_min", "final"),
        "entropy in nats, minimum over the closing sentence, after CoT minus after the question alone",
        threshold=-NATS, why=WHY_NATS,
    ),
    "no_sink_nats": Comparison(
        "same sentence, without the sink, in nats",
        *_compared("cot_clean", "no_cot", "entropy_nats_without_sink_min", "final"),
        "entropy in nats without the first key, minimum over the sentence, after CoT minus after the question alone",
        threshold=-NATS, why=WHY_NATS,
    ),
    "length": Comparison(
        "at equal length", *_compared("cot", "no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, with CoT minus without",
    ),
    "format": Comparison(
        "equal length and format", *_compared("cot_clean", "no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, CoT in the format of no_cot minus no_cot",
    ),
    "window": Comparison(
        "neighbouring tokens", *_compared("cot_clean", "no_cot", "min", "window"),
        "minimum over as many neighbouring answer tokens as the sentence has, with CoT minus without",
    ),
    "sentence_same": Comparison(
        "same sentence: no difference", *_compared("cot_clean", "no_cot", "min", "final"),
        "minimum over the closing sentence, after CoT minus after the question alone",
        role="ours", direction="within", threshold=0.0, margin=SMALLEST, why="less than we count, either way",
    ),
    "relevance_same": Comparison(
        "relevance: no difference", *_compared("cot_clean", "swapped_clean", "min", "final"),
        "minimum over the closing sentence, after the problem's CoT minus after another problem's",
        role="ours", direction="within", threshold=0.0, margin=SMALLEST, why="less than we count, either way",
    ),
    "permuted_published": _without_training("as published", "no_cot", "all", first="cot"),
    "permuted_sentence": _without_training("same sentence", "no_cot", "final"),
    "permuted_tokens": _without_training("tokens out of order", "shuffled_tokens_clean", "final"),
}  # fmt: skip
"""By part."""
BEYOND = {
    "published_beyond": ("published", "permuted_published"),
    "sentence_beyond": ("sentence", "permuted_sentence"),
}
"""By part: two comparisons, the model's and that of the model with permuted weights."""
