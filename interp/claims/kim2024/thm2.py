"""kim2024, Theorem 2: how much does a gradient without intermediate supervision say about the secret?

The variance of the gradient over *all* secrets of k bits is computed exactly, from one Walsh-Hadamard transform of
the gradient of each model at every input, and compared with the bound over all inputs (Proposition 3) and the one on
n samples (Appendix A); at random initial weights, and after training on one secret. Then the oracle of the proof,
for the loss over all inputs: it answers with the mean gradient over secrets wherever that is within epsilon of the
true one, so that the secrets it hides share one trajectory, and the loss over all of them is known. Beside it the
same model, step size and number of queries with exact gradients, which do get below that bound. At k = d there is
one secret and nothing to hide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.claims.kim2024._secrets_runs import ask_oracle, measure_spread
from interp.claims.kim2024._thm2 import REVEALED, spreads, summary
from interp.claims.kim2024._thm2_parts import parts
from interp.claims.kim2024._worlds_secrets import secret_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from interp.core.loops import Loop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm2"


@dataclass(frozen=True)
class Asked:
    """A model under the oracle, and with exact gradients for as many queries, at several step sizes of Adam."""

    model: str
    d: int
    k: int
    n_queries: int
    rates: tuple[float, ...]
    """Chosen on other seeds such that exact gradients are enough to learn."""


@dataclass(frozen=True)
class Thm2:
    """Gradients at every input for each model, size and seed; trajectories under the oracle for each step size."""

    sizes: tuple[tuple[str, int], ...]
    """Models and numbers of bits d at which the bounds are judged."""
    wide: tuple[tuple[str, int], ...]
    """Further ones, of `wide_seeds` seeds, for how the variance falls with the number of secrets."""
    wide_seeds: int
    powers: tuple[int, ...]
    """Samples n = d^power; up to d^2 the bound says nothing, it is above the largest square."""
    n_updates: int
    """Updates on one secret after which the gradient is looked at again."""
    batch_size: int
    told: tuple[Asked, ...]
    whole: Asked
    """d = k, where there is one secret."""
    seeds: int
    batch: int
    first_unit: int = 0


RATES = (0.003, 0.03, 0.3)
PRESETS = {
    "smoke": Thm2(
        sizes=(("theory", 6), ("perceptron", 6), ("one_parity", 6)), wide=(("perceptron", 8),), wide_seeds=2,
        powers=(3,), n_updates=3, batch_size=16, told=(Asked("theory", 6, 2, 6, (0.3,)),),
        whole=Asked("perceptron", 4, 4, 60, (0.03,)), seeds=2, batch=2,
    ),
    "cpu": Thm2(
        sizes=(
            *((model, d) for model in ("theory", "perceptron") for d in (6, 8, 10, 12)),
            *(("transformer", d) for d in (6, 8, 10)), ("one_parity", 10),
        ),
        wide=(("theory", 14), ("theory", 16), ("perceptron", 14), ("perceptron", 16), ("transformer", 12)),
        wide_seeds=4, powers=(3, 5), n_updates=100, batch_size=32,
        told=(Asked("theory", 12, 4, 20, (0.3,)), Asked("perceptron", 12, 4, 100, (0.3,))),
        whole=Asked("perceptron", 6, 6, 500, RATES), seeds=60, batch=20,
    ),
    "paper": Thm2(
        sizes=(
            *((model, d) for model in ("theory", "perceptron") for d in (6, 8, 10, 12, 14, 16)),
            *(("transformer", d) for d in (6, 8, 10, 12, 14)), ("one_parity", 12),
        ),
        wide=(("theory", 18), ("theory", 20), ("perceptron", 18), ("perceptron", 20), ("transformer", 16)),
        wide_seeds=10, powers=(3, 4, 5), n_updates=2000, batch_size=256,
        told=(Asked("theory", 12, 4, 20, (0.3,)), Asked("perceptron", 12, 4, 100, (0.3,))),
        whole=Asked("perceptron", 8, 8, 2000, RATES), seeds=100, batch=10,
    ),
}  # fmt: skip


def items(preset: Thm2) -> list[Item]:
    """One batch of seeds of one model and size each; the large sizes come first."""
    looked = {"n_updates": preset.n_updates, "batch_size": preset.batch_size}
    wide, judged = {"powers": [], "judged": 0}, {"powers": list(preset.powers), "judged": 1}
    asked = [("oracle", one) for one in preset.told] + [("whole", preset.whole)]
    kinds: list[tuple[str, str, int, int, dict[str, Any]]] = [
        *(("wide", model, d, preset.wide_seeds, looked | wide) for model, d in preset.wide),
        *(("spread", model, d, preset.seeds, looked | judged) for model, d in preset.sizes),
        *(
            (
                kind, one.model, one.d, preset.seeds,
                {"k": one.k, "n_queries": one.n_queries, "rates": list(one.rates)},
            )
            for kind, one in asked
        ),
    ]  # fmt: skip
    return [
        Item(
            f"{kind},{model},d={d},seeds={seeds[0]}-{seeds[-1]}",
            {"kind": kind, "model": model, "d": d, "seeds": seeds, **parameters},
        )
        for kind, model, d, n_seeds, parameters in sorted(kinds, key=lambda one: -one[2])
        for seeds in seed_batches(n_seeds, preset.batch, preset.first_unit)
    ]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The variance over secrets beside its bounds, or what the oracle hides and what the loss is then."""
    return measure_spread(item) if item.parameters["kind"] in ("wide", "spread") else ask_oracle(item)


def _asked(p: Mapping[str, Any]) -> str:
    """Which parameter counts the updates of an item, each for all its seeds and learning rates."""
    return "n_updates" if "n_updates" in p else "n_queries"


def _runs(p: Mapping[str, Any]) -> int:
    return len(p["seeds"]) * len(p.get("rates", [0.0]))


def _few_runs(p: Mapping[str, Any], n: int) -> dict[str, Any]:
    """The first seeds at the first learning rate, with as many updates in all."""
    rates = {"rates": p["rates"][:1]} if "rates" in p else {}
    return {"seeds": p["seeds"][:n], _asked(p): max(p[_asked(p)] // n, 1)} | rates


LOOPS = (
    Loop("updates of one seed", lambda p: _runs(p) * p[_asked(p)], lambda p, n: {_asked(p): n}),
    Loop("seeds", _runs, _few_runs),
)
"""What an item repeats: all secrets are gone through for one seed after the other."""


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The variance over secrets against their number, with its bound."""
    from interp.claims.kim2024._figures_thm2 import variance_against_secrets

    return {"variance_over_secrets": variance_against_secrets(spreads(rows))}


register(
    Claim(
        id=ID,
        sentence=(
            "Without intermediate supervision the gradient hardly depends on the secret: its variance over all "
            "k-parities is at most E|grad f|^2 over their number, and the oracle of the proof, which hides the "
            "secret within a small error, keeps the loss above the bound of equation (5)."
        ),
        method=(
            "The gradient of each model is taken at every one of the 2^d inputs; a Walsh-Hadamard transform gives "
            "what every secret of k bits contributes to the gradient, hence the exact variance over all of them, "
            "under the uniform distribution and under n samples. It is compared with both bounds, at random weights "
            "and after training on one secret. A seed passes if the bound holds at every k, n and time; a bound on "
            "samples that is above sup|grad f|^2 is not judged. Under the oracle for the loss over all inputs Adam "
            "follows the mean gradient; secrets whose gradient at any query is more than epsilon away from the mean "
            "count as revealed, and as solved without error. Three epsilon are computed from what is met on the way: "
            f"such that {REVEALED:g} of the secrets are revealed, the cube root of the largest variance, and such "
            "that the union bound reveals at most as many. What is not smaller than the gradient itself, or leaves "
            "no bound on the loss, is not judged. Controls: the first epsilon is smaller than the gradient, and "
            "exact gradients get below the bound with the same model, step size and number of queries. Shares of "
            "seeds have exact intervals, least over models and sizes."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: d = 6, two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for any model and large d: three small models, d from 6 to 12 (16 where only the fall of "
                "the variance is fitted), k = 2, d/2 and d - 2; two models at (12, 4) under the oracle, 20 and 100 "
                "queries; 60 seeds",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for any model and large d: three small models, d from 6 to 16 (20 where only the fall of "
                "the variance is fitted); two models at (12, 4) under the oracle, 20 and 100 queries; 100 seeds",
            ),
        },
        finding=(
            "The variance of the gradient over all secrets was within the bound over all inputs in "
            "{population.estimate:.0%} of {population.n} seeds and within the bound on samples in "
            "{sample.estimate:.0%}, at the worst model and size; at k = d/2 it fell as the number of secrets to the "
            "power {decay}, at the slowest of three models. Under the oracle of the proof the loss stayed above its "
            "bound in {oracle.estimate:.0%}, where exact gradients got below it in {exact.estimate:.0%}; with k = d, "
            "where the statement's |P| is 1, {whole.estimate:.0%} of seeds learned all the same."
        ),
        falls_short=(
            "Three small models at d of at most 12 stand for every model; the theorem's own oracle is run on two of "
            "them at one size, with at most 100 queries. A bound that is proved for all weights can only be violated "
            "by an error, here or there."
        ),
        deviations=(
            "The theorem is about every model; three small ones stand for it (the theory model with a chain of its "
            "own of seven nodes, a perceptron of eight neurons, a one-layer transformer of width eight), and one "
            "that is a parity itself, which reaches the bound. Suprema over weights are taken over the weights met. "
            "The cube root of the variance is the proof's epsilon in case (1); the variance is the largest measured "
            "on the way, not its bound, which is orders larger and would allow errors above the gradient itself; "
            "Pr(Q) is the share of secrets that do stay hidden. The theorem is about the loss L_n on samples too; "
            "the oracle here is that of all inputs. Under it stand the theory model (20 queries) and the perceptron "
            "(100) at d = 12 and k = 4, by Adam at 0.3, where exact gradients learn; the transformer, which a review "
            "found not to learn within 20, is left out. Training before the second look is Adam at 0.01, 100 updates "
            "of 32 inputs at cpu. e^(-Omega(d)) in the loss is replaced by the number it stands for, 2 E_x|E_p p(x)|."
        ),
        clarity=(
            "The bounds are theorems: a violation would be an error of ours or of the statement, and agreement "
            "says how far from tight they are. Three slips in the paper, none of which touches its conclusion for "
            "k = d/2: Proposition 3 is printed for the squared error, for which the bound must be four times as "
            "large (the model that is a parity exceeds it otherwise); the two cases of the oracle are printed the "
            "other way round, so that it would reveal what it should hide; and k = Theta(d) admits k = d, where "
            "|P| = 1, the mean gradient is the true one, Lemma 8 fails and the lower bound on the loss with it. "
            "(d/k)^k, the bound by which |P| = e^(Theta(d)) is shown, is 1 there. 'Parity cannot be learned' rests "
            "on the oracle: with exact gradients these sizes are learned, which is the control. All algorithms "
            "that ask the oracle share the trajectory only as far as they are deterministic and see the same "
            "answers: one algorithm, Adam, is run. Proposition 3 is an upper bound: how fast the variance itself "
            "falls with |P| it does not say, and that part is ours."
        ),
        history=(
            "No run of this claim was published before. A review of the first protocol, on seeds below 1000, found "
            "the oracle vacuous: epsilon came from the bound on the variance, at d = 6 and 8, and was larger than "
            "any gradient, or so small that nothing was left of equation (5); no control showed that exact gradients "
            "do better, and n = d^2 samples were judged against a bound above sup|grad f|^2. Models, d, k, step "
            "sizes and queries under the oracle were then chosen on seeds 0 to 3 such that exact gradients learn. On "
            "these seeds the epsilon of the union bound, though from the measured variance, was still 0.5 to 8 times "
            "the gradient; the one that reveals exactly a tenth of the secrets, 0.06 to 1.1 times, was added, and "
            "Pr(Q) became the share that does stay hidden. Before the review the fall of the variance counted as the "
            "paper's and was averaged over models."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=secret_worlds(PRESETS["cpu"]),
        figures=figures,
    )
)
