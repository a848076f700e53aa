"""kim2024, Theorem 2 and section 3: is parity out of reach without intermediate supervision, and why?

Theorem 2 is about any model and an adversarial oracle; here the theory model is trained by plain SGD and its gradient
measured. Four regimes differ only in their supervision: the root alone (`direct`), every node of the model's own
chain (`end_to_end`), every node with teacher forcing, and every node of its own chain under the filter. All have the
mask by level. The signal-to-noise ratio of the gradient is exact, over all inputs at random weights N(0, 1), of three
losses: the root from the bits alone (`direct`), the root of the model's own chain (`end_to_end`; here the root alone
is supervised), and teacher forcing. k = d is left out, because it has one candidate set and nothing to hide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._no_supervision import LEARNED, NOT_LEARNED, REGIMES, parts, published, signals, summary
from interp.claims.kim2024._runs import LINK, generators, planted, true_values
from interp.claims.kim2024._worlds_supervision import supervision_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/no-supervision"


@dataclass(frozen=True)
class NoSupervision:
    """One SGD run for each regime and seed, and one measured gradient for each k and seed."""

    d: int
    k: int
    n_steps: int
    batch_size: int
    eta: float
    """In units of d^2."""
    eps_0: float
    eval_every: int
    n_test: int
    signal_d: int
    """Bits of the inputs that are enumerated for the signal-to-noise ratio."""
    signal_ks: tuple[int, ...]
    seeds: int
    batch: int
    first_unit: int = 0


PRESETS = {
    "smoke": NoSupervision(
        d=16, k=8, n_steps=60, batch_size=512, eta=0.01, eps_0=1.8, eval_every=10, n_test=256,
        signal_d=8, signal_ks=(2, 4), seeds=2, batch=2,
    ),
    "cpu": NoSupervision(
        d=64, k=32, n_steps=500, batch_size=2048, eta=0.0015, eps_0=1.7, eval_every=10, n_test=2048,
        signal_d=16, signal_ks=(2, 4, 8), seeds=10, batch=5,
    ),
    "paper": NoSupervision(
        d=64, k=32, n_steps=5000, batch_size=2048, eta=0.0015, eps_0=1.7, eval_every=50, n_test=16_384,
        signal_d=20, signal_ks=(2, 4, 8), seeds=50, batch=10,
    ),
}  # fmt: skip


def items(preset: NoSupervision) -> list[Item]:
    """A batch of seeds under one regime each, and one measured gradient for each k."""
    batches = list(seed_batches(preset.seeds, preset.batch, preset.first_unit))
    training = {
        "d": preset.d, "k": preset.k, "n_steps": preset.n_steps, "batch_size": preset.batch_size, "eta": preset.eta,
        "eps_0": preset.eps_0, "eval_every": preset.eval_every, "n_test": preset.n_test,
    }  # fmt: skip
    return [
        *(
            Item(f"{regime},seeds={seeds[0]}-{seeds[-1]}", {"regime": regime, "seeds": seeds, **training})
            for regime in REGIMES
            for seeds in batches
        ),
        *(
            Item(f"signal,k={k},seeds={seeds[0]}-{seeds[-1]}", {"d": preset.signal_d, "k": k, "seeds": seeds})
            for k in preset.signal_ks
            for seeds in batches
        ),
    ]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The root's loss and accuracy during training, or the gradient's signal-to-noise ratio."""
    return _train(item) if "regime" in item.parameters else _signal(item)


def _train(item: Item) -> pd.DataFrame:
    from toy_models.tree_parity.filter import Filter
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.training import sgd

    p = item.parameters
    forest = planted(p["d"], p["k"], p["seeds"])
    progress = sgd(
        forest,
        p["regime"],
        true_values(forest, p["seeds"], p["n_test"]),
        generators(p["seeds"], "train"),
        eta=p["eta"] * p["d"] ** 2,
        link=LINKS[LINK],
        n_updates=p["n_steps"],
        batch_size=p["batch_size"],
        eval_every=p["eval_every"],
        check=Filter(p["eps_0"]),
        n_augmented=p["d"],
    )
    units = [str(seed) for seed in p["seeds"]]
    common = {
        "run": item.name, "condition": p["regime"], "unit": units, "setting": setting(d=p["d"], k=p["k"]),
        "scope": "test",
    }  # fmt: skip
    return concat(
        table(metric=metric, value=values.tolist(), samples=at.update * p["batch_size"], **common)
        for at in progress
        for metric, values in (("loss", at.loss), ("accuracy", at.accuracy))
    )


def _signal(item: Item) -> pd.DataFrame:
    import torch

    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.signal import LOSSES, signal_to_noise

    p = item.parameters
    forest = planted(p["d"], p["k"], p["seeds"])
    shape = (forest.n_nodes, forest.n_keys)
    weights = torch.stack([torch.randn(shape, generator=g) for g in generators(p["seeds"], "weights")])
    inputs = Sample.every_input(p["d"], forest.n_seeds)
    common = {
        "run": item.name, "unit": [str(seed) for seed in p["seeds"]], "setting": setting(d=p["d"], k=p["k"]),
        "scope": "every input", "metric": "signal_to_noise",
    }  # fmt: skip
    return concat(
        table(condition=loss, value=signal_to_noise(weights, forest, inputs, LINKS[LINK], loss).tolist(), **common)
        for loss in LOSSES
    )


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Loss curves of the four regimes, and the signal-to-noise ratio against k."""
    from interp.claims.kim2024._figures import loss_curves, signal_against_k

    return {"loss_curves": loss_curves(rows), "signal_to_noise": signal_against_k(signals(rows))}


register(
    Claim(
        id=ID,
        sentence=(
            "Without intermediate supervision gradients carry no usable signal about the secret bits and parity is "
            "not learned in polynomially many steps; with it, by teacher forcing or by a filter on the model's own "
            "chain, it is."
        ),
        method=(
            "One model is trained by SGD from zero in each of four regimes that differ in their supervision alone. "
            "After training, half the squared error of the root by rollout (0.5 for the answer 0) tells whether a "
            f"seed has learned: below {LEARNED:g} it has, above {NOT_LEARNED:g} it has not. Shares of seeds have "
            "exact intervals. The signal-to-noise ratio of one sample's gradient, exact over all inputs at random "
            "weights, is compared at the largest k with the bound on its quadratic mean over secrets, 1 / "
            "sqrt(number of secrets): the mean over seeds of the logarithm, which Proposition 3 bounds too."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: (d, k) = (16, 8), 60 updates, two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for any model and any algorithm: one model at (64, 32), SGD with one step size for 500 "
                "updates, ten seeds; gradients at d = 16, k = 8",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for any model and any algorithm: one model at (64, 32), SGD with one step size for 5000 "
                "updates, 50 seeds; gradients at d = 20, k = 8",
            ),
        },
        finding=(
            "Supervised at the root alone, {direct.estimate:.0%} of {direct.n} seeds had learned nothing; with "
            "teacher forcing {teacher_forcing.estimate:.0%} had learned the parity, on their own filtered chains "
            "{filter.estimate:.0%}. The signal-to-noise ratio of the root's gradient was 10 to the power "
            "{signal} times its bound, that of teacher forcing 10 to the power {forced_signal} times."
        ),
        deviations=(
            "The theorem has no experiment in the paper; sizes and constants are ours. cpu: (d, k) = (64, 32), fresh "
            "batches of 2048, a step of 0.0015 d^2, 500 updates, filter at eps_0 = 1.7, ten seeds; signal-to-noise "
            "ratio over all 2^16 inputs for k = 2, 4, 8. paper: 5000 updates, all 2^20 inputs, 50 seeds. The "
            "theorem's oracle is adversarial, ours is honest: batches are exact samples. One step size is tried, the "
            "one that works with teacher forcing; another might do better on the root alone. Learning with teacher "
            "forcing and with the filter takes many small steps here, not the one step and the log2 k updates of "
            "Theorems 5 and 7. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "Theorem 2 is about every algorithm, but grants it only an adversarial oracle; failing training runs of "
            "one model are an instance of it, not a proof. A model that stays at 0 has a loss of 0.5, so the "
            "failure with the root alone says something only beside teacher forcing, which learns with the same "
            "samples and step size. That the model's own chain, supervised at every node, needs a filter is no "
            "statement of the paper's and depends on the size: smaller problems are learned without it. With ten "
            "seeds a share above 0.9 cannot be shown, even if all agree."
        ),
        history=(
            "Until the parts were declared, the mean loss over seeds was judged by a t interval, which can be wrong "
            "if a few seeds behave otherwise than the rest; the failure of the own chain without a filter counted as "
            "the paper's; and the signal had to fall tenfold from k = 2, where the three losses are one and the "
            "same, to k = 8, and that of teacher forcing not to. The filter's loss stands at 0.5 until its "
            "levels open one after another. At k = 8 of 16 bits one sample's gradient of the root's loss carries a "
            "signal of 1.5e-4 of its noise, against 0.04 with teacher forcing: some 40 million samples against 600 "
            "for a ratio of 1. The need for the filter is one of size: at (16, 8) the own chain learns without it, "
            "and so it did at (32, 16) in a trial outside the suite."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=supervision_worlds(PRESETS["cpu"]),
        published=published,
        figures=figures,
    )
)
