"""huang2025, section 8: do positions hinder length generalisation, which a model without them has?

The paper's models have no positions (NoPE), and its last section names positional embeddings as a plausible cause of
failures at unseen lengths; it shows no experiment on it. Here the same block learns length 5 without positions, with
learned ones and with fixed sines and cosines. Places beyond those of training have to be something: a learned vector
that was never trained is what it was drawn as, or zero; sines and cosines are defined everywhere.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.huang2025._loops import READ
from interp.claims.huang2025._nope import (
    FIXED,
    LEARNED,
    PERMUTED,
    RUNS,
    SHUFFLED,
    WITHOUT,
    ZEROED,
    Nope,
    PlacedRun,
    parts,
    summary,
)
from interp.claims.huang2025._parts import CONSTANT, SCALE, TOO_SMALL
from interp.claims.huang2025._runs import END, PAPER, SMOKE, SOLVES, by_seed, point_rows, run_rows
from interp.claims.huang2025._worlds_nope import WORLDS
from interp.core.claim import Claim, Item, register
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/nope"
PRESETS = {
    "smoke": Nope(tuple(replace(run, **SMOKE, n_ctx=21) for run in RUNS.values()), seeds=2),
    "cpu": Nope(tuple(RUNS.values()), seeds=8),
    "paper": Nope(tuple(replace(run, **PAPER) for run in RUNS.values()), seeds=8),
}


def items(preset: Nope) -> list[Item]:
    """One item for each run and seed."""
    return by_seed(preset.runs, preset)


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Steps, accuracies and loss at all points; the end with untrained places at zero, and in random order."""
    import torch

    from interp.claims.huang2025._training import taught
    from toy_models.lego.generation import share_solved

    run = PlacedRun(**item.parameters)
    found = taught(run)
    model, step = found.model(), found.updates[END]
    share = share_solved(model, replace(run.task, permuted=True), run.n_test, run.generator(2))
    where = setting(**run.settings, point=END, length=run.length)
    permuted = table(metric=PERMUTED, value=share, setting=where, update=step, n_tokens=run.n_test, **run.labels)
    tables = [run_rows(run, found), permuted]
    if run.positions == "learned":
        with torch.no_grad():  # the last clause of a sentence is never read, so its place is not trained
            model.get_parameter("pos_embed.weight")[2 * run.length :] = 0.0
        tables.append(point_rows(run, model, step, point=ZEROED))
    return concat(tables)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Accuracy against length, trained with the predicates in order and in random order."""
    from interp.claims.huang2025._figures import draw_positions

    found = with_settings(rows)
    accuracy = found[(found["metric"] == "accuracy") & found["point"].isin([END, ZEROED])]
    panels = {
        "trained with predicates in order": {
            "no positions": (WITHOUT.condition, END), "learned": (LEARNED.condition, END),
            "learned, untrained zero": (LEARNED.condition, ZEROED), "sinusoidal": (FIXED.condition, END),
        },
        "trained with predicates in random order": {
            "no positions": (WITHOUT.condition, END), "learned": (SHUFFLED.condition, END),
            "learned, untrained zero": (SHUFFLED.condition, ZEROED),
        },
    }  # fmt: skip
    return {"positions": draw_positions(accuracy, panels)}


register(
    Claim(
        id=ID,
        sentence=(
            "Standard positional embeddings often hinder length generalisation and NoPE does not: without positions "
            "the model retrieves by content, not by place."
        ),
        method=(
            "The standard block of huang2025/fig1a learns C6 at length 5 without positions, with a learned vector "
            "added to the clause at each place, and with fixed sines and cosines; all drawn and scaled like the "
            "tokens, other weights and data the same at a seed. Learned positions beyond the ten places of training "
            "are as they were drawn, or set to zero after training. A fourth arm has learned positions and "
            "predicates in random order, in training and tests, so that only answers have their places. Accuracy is "
            f"free-running at lengths 5 to 160, all steps right, 128 sentences each; models that solve {SOLVES:g} of "
            "length 5 are compared by seed, 2000 steps after the loss has fallen below 0.1: the area between "
            "accuracy curves over log2 of the length, in octaves. Eight seeds."
        ),
        scale=SCALE,
        finding=(
            "Octaves by which C6 goes farther without positions than with learned ones {learned_farther}, than with "
            "sinusoidal ones {sinusoidal_farther}, than with learned ones of which the untrained are zero "
            "{zeroed_farther}. With learned positions the share of sentences of length 5 that survive a random order "
            "of the predicates is {by_place}. Trained in random order, and with untrained positions at zero, learned "
            "positions go {content} octaves farther than trained in order, and stay {rest} behind none."
        ),
        deviations=(
            "The paper has no experiment on positions: section 8 cites others for their harm, calls it plausible, "
            "and gives retrieval by content as the reason. The arms, the random order and the zeros are ours. "
            f"{CONSTANT}{TOO_SMALL}"
        ),
        falls_short=(
            "The experiment is ours: the paper says it of models at large, calls it plausible and shows none. One "
            "layer, one group, learned and sinusoidal absolute positions; rotary and relative ones were not tried. "
            "That retrieval by place is what hinders is judged by parts of ours."
        ),
        clarity=(
            "What a position beyond those of training is decides much, and the paper does not say: vectors that were "
            "never trained disturb by themselves, so they are also set to zero, and sines and cosines are defined "
            "everywhere; with learned positions alone the outcome would nearly be given by construction. Without "
            "positions the order of the predicates cannot matter, by construction."
        ),
        history=(
            "One run of each arm with positions at seed 0. Solved at 5/10/20/40/80/160: learned 1/0/0/0/0/0, with "
            "untrained positions at zero the same, and .02 of length 5 in random order; sinusoidal "
            "1/.05/.05/0/0/0, and .77; learned and trained in random order 1/.14/0/0/0/0, with untrained positions "
            "at zero 1/.88/.71/.38/.20/.03. The parts were written after these."
        ),
        presets=PRESETS,
        loops=READ,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        figures=figures,
    )
)
