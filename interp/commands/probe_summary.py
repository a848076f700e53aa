"""What did the probes of one run find, in a few lines? Tables for the terminal, the same as plain JSON."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from probes.rows import with_settings

if TYPE_CHECKING:
    from rich.table import Table

TITLES = {
    "accuracy": "Accuracy of every step on the test inputs, against the best constant guess",
    "attention": "Attention at the steps (means over steps and test inputs)",
    "linear": "Linear probes of every state at its own step: balanced accuracy, held out; code length, bits a label",
    "knockouts": "Knockouts in all heads: accuracy of the steps",
    "effects": "What editing a head costs the answer: fall of its logit minus the largest other, p adjusted over all",
}
SERVES = 0.5
"""A head serves a step if its largest weight is on a dependency for more than this share of the inputs."""


def summary(rows: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The lines of every table, from rows alone."""
    return {
        "accuracy": _accuracy(rows),
        "attention": _attention(rows),
        "linear": _linear(rows),
        "knockouts": _knockouts(rows),
        "effects": _effects(rows),
    }


def _accuracy(rows: pd.DataFrame) -> list[dict[str, Any]]:
    found = with_settings(rows[rows["metric"].isin(["accuracy_at_step", "chance", "above_chance"])])
    wide = found.pivot_table(index="step", columns="metric", values="value")
    return [
        {
            "step": int(step) + 1,
            "accuracy": round(of["accuracy_at_step"], 3),
            "chance": round(of["chance"], 3),
            "learned": "yes" if of["above_chance"] else "no: at chance",
        }
        for step, of in wide.iterrows()
    ]  # pyright: ignore[reportReturnType]


def _attention(rows: pd.DataFrame) -> list[dict[str, Any]]:
    lines = []
    for (layer, head), of in rows[rows["metric"] == "top1_hit"].groupby(["layer", "head"]):
        here = rows[(rows["layer"] == layer) & (rows["head"] == head) & (rows["query"] >= 0)]
        means = here.groupby("metric")["value"].mean()
        lines.append(
            {
                "layer": int(layer),
                "head": int(head),
                "steps served": f"{int((of['value'] > SERVES).sum())} of {len(of)}",
                "mass on dependencies": round(means["dependency_mass"], 3),
                "entropy": round(means["row_entropy"], 3),
                "sink": round(means["sink_mass"], 3),
            }
        )
    return lines


def _linear(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """For every state the probes at the step that answers it; without CoT, at the last step."""
    found = with_settings(rows[rows["metric"].str.startswith("probe_")])
    steps = rows.loc[rows["metric"] == "top1_hit", "query"].drop_duplicates().sort_values().tolist()
    wide = found.pivot_table(
        index=["state", "layer", "hook", "pos"], columns="metric", values="value", sort=False
    ).reset_index()
    n_states = int(wide["state"].max()) + 1
    lines = []
    for state in range(n_states):
        step = steps[state] if len(steps) == n_states else steps[-1]
        for _, probe in wide[(wide["state"] == state) & (wide["pos"] == step)].iterrows():
            lines.append(
                {
                    "state": state + 1,
                    "position": int(step),
                    "place": f"{int(probe['layer'])} {probe['hook'].removeprefix('hook_')}",
                    "accuracy": round(probe["probe_accuracy"], 3),
                    "interval": f"[{probe['probe_low']:.2f}, {probe['probe_high']:.2f}]",
                    "control": round(probe["probe_control"], 3),
                    "untrained": round(probe["probe_untrained"], 3),
                    "shuffled": round(probe["probe_shuffled"], 3),
                    "bits": round(probe["probe_bits"], 2),
                }
            )
    return lines


def _knockouts(rows: pd.DataFrame) -> list[dict[str, Any]]:
    found = with_settings(rows[rows["metric"] == "step_accuracy"])
    clean = found[found["scope"] == "clean"].set_index("step")["value"]
    own = found[found["hidden"] == found["step"]].set_index(["scope", "step"])["value"]
    others = (
        found[(found["scope"] == "everywhere") & (found["hidden"] != found["step"])].groupby("hidden")["value"].min()
    )
    return [
        {
            "step": int(at) + 1,
            "clean": round(clean[at], 3),
            "its keys hidden from it": round(own["at_step", at], 3),
            "random keys hidden from it": round(own["random", at], 3),
            "lowest other step, its keys hidden everywhere": round(others[at], 3) if at in others else None,
        }
        for at in sorted(clean.index)
    ]


def _effects(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """For every edit and head the step on which it has the largest effect."""
    found = rows[rows["metric"].str.startswith("effect")]
    wide = with_settings(found).pivot_table(
        index=["scope", "layer", "head", "step"], columns="metric", values="value", sort=False
    ).reset_index()  # fmt: skip
    lines = []
    for (edit, layer, head), of in wide.groupby(["scope", "layer", "head"], sort=False):
        most = of.loc[of["effect"].abs().idxmax()]
        lines.append(
            {
                "edit": edit,
                "layer": int(layer),
                "head": int(head),
                "step": int(most["step"]) + 1,
                "effect": float(f"{most['effect']:.3g}"),
                "interval": f"[{most['effect_low']:.3g}, {most['effect_high']:.3g}]",
                "p": round(most["effect_p"], 4),
            }
        )
    return lines


def summary_tables(found: dict[str, list[dict[str, Any]]]) -> "dict[str, Table]":
    """The summary as rich tables by name; a table without a line is left out."""
    from rich.table import Table
    from rich.text import Text

    tables = {}
    for name, lines in found.items():
        if not lines:
            continue
        table = Table(title=TITLES[name])
        for column in lines[0]:
            table.add_column(column)
        for line in lines:
            table.add_row(*(Text("-" if value is None else str(value)) for value in line.values()))
        tables[name] = table
    return tables
