"""What is measured, whatever the model and wherever it runs? Checked when it is made, before a model is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hf_analysis.measurement.kept_tokens import TOKEN_STATISTIC
from hf_analysis.models.generation import Decoding
from hf_analysis.text.conditions import OWN, find_condition
from hf_analysis.text.problems import Problem
from hf_analysis.text.scopes import DEFAULT_SCOPES, PAPER_SCOPES, find_scope
from probes.attention.statistics import DEFAULT_METRICS, find_metric, statistics_of

PAPER_CONDITIONS = ("cot", "no_cot")
PAPER_METRICS = ("min",)


@dataclass(frozen=True)
class Request:
    """What is measured, whatever the model."""

    problems: Sequence[Problem]
    conditions: Sequence[str]
    seed: int = 0
    keep_tokens: int = 0
    paper_mode: bool = False
    share: bool = True
    """Whether conditions share the question, or every passage is computed on its own."""
    batch_size: int | None = None
    """Problems per forward pass; None: 1 on a CPU, 8 on a GPU."""
    asked_metrics: Sequence[str] | None = None
    """Names of `probes.attention.statistics`; None: the usual ones, or the paper's in paper mode."""
    asked_scopes: Sequence[str] | None = None
    """Names of `hf_analysis.text.scopes`; None: the usual ones, or the paper's in paper mode."""
    pairs: Sequence[tuple[str, str]] | None = None
    """Pairs of conditions whose own numbers (equal length, m tokens) are computed; None: all."""

    decoding: Decoding = field(default_factory=Decoding)
    """How the model writes, in the conditions whose text is its own."""
    chat: bool = False
    """Whether every condition's question is put to the model as its chat template says."""
    thinking: bool | None = None
    """The switch of chat templates that have one."""
    check: bool = False
    """Whether a model's first forward pass is compared with slower computations."""

    def __post_init__(self) -> None:
        for name in self.conditions:
            find_condition(name)
        if not self.conditions or len(set(self.conditions)) != len(self.conditions):
            raise ValueError(f"conditions {list(self.conditions)}: need at least one, and none twice")
        if self.paper_mode and tuple(self.conditions) != PAPER_CONDITIONS:
            raise ValueError(f"paper mode measures the conditions cot no_cot, got {' '.join(self.conditions)}")
        for name in self.metrics:
            find_metric(name)
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"metrics {list(self.metrics)}: need at least one, and none twice")
        if self.paper_mode and tuple(self.metrics) != PAPER_METRICS:
            raise ValueError(f"paper mode measures the metric min, got {' '.join(self.metrics)}")
        self._check_scopes()
        if not self.problems:
            raise ValueError("no problem to measure")
        if len({problem.id for problem in self.problems}) != len(self.problems):
            raise ValueError("two problems have the same id; ids must be unique")
        if self.thinking is not None and not self.chat:
            raise ValueError("--thinking is a switch of chat templates; it needs --chat")
        if self.chat and self.paper_mode:
            raise ValueError("paper mode reads the bare question; it does not go with --chat")
        if self.decoding != Decoding() and not self.own:
            raise ValueError(f"decoding options need one of the conditions {' '.join(OWN)}")
        if self.keep_tokens < 0:
            raise ValueError(f"keep_tokens {self.keep_tokens}: need 0 or more")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch size {self.batch_size}: need at least 1")

    def _check_scopes(self) -> None:
        for name in self.scopes:
            find_scope(name)
        if not self.scopes or len(set(self.scopes)) != len(self.scopes):
            raise ValueError(f"scopes {list(self.scopes)}: need at least one, and none twice")
        if self.paper_mode and tuple(self.scopes) != PAPER_SCOPES:
            raise ValueError(f"paper mode measures the scope all, got {' '.join(self.scopes)}")
        for pair in self.pairs or ():
            if len(set(pair)) != 2 or not set(pair) <= set(self.conditions):
                raise ValueError(f"pair {tuple(pair)}: need two of the conditions {' '.join(self.conditions)}")

    @cached_property
    def kept(self) -> list[Problem]:
        """The problems whose tokens are kept (`kept_tokens`)."""
        return list(self.problems[: self.keep_tokens])

    @property
    def own(self) -> tuple[str, ...]:
        """The conditions whose text the model writes itself."""
        return tuple(name for name in self.conditions if name in OWN)

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is reported."""
        usual = PAPER_METRICS if self.paper_mode else DEFAULT_METRICS
        return usual if self.asked_metrics is None else tuple(self.asked_metrics)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Over which tokens."""
        usual = PAPER_SCOPES if self.paper_mode else DEFAULT_SCOPES
        return usual if self.asked_scopes is None else tuple(self.asked_scopes)

    @cached_property
    def matched(self) -> frozenset[frozenset[str]] | None:
        """The pairs of conditions whose own numbers are computed; None: all."""
        return None if self.pairs is None else frozenset(map(frozenset, self.pairs))

    @property
    def statistics(self) -> tuple[str, ...]:
        """What must be recorded for that."""
        kept = (TOKEN_STATISTIC,) if self.keep_tokens else ()
        return tuple(dict.fromkeys((*statistics_of(self.metrics), *kept)))
