"""Small runs made by hand: what a report needs, without a model."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from interp.core.claim import find_claims
from interp.core.ledger import Record
from probes import rows
from probes.attention.statistics import DEFAULT_METRICS as METRICS

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\"'`><b>bold</b>",
    "\u202eright to left\u202c",
    "<!--",
    "\u2028%{x}&lt;",
)
LAYERS, HEADS = 3, 4
CONDITIONS = ("cot", "no_cot", "shuffled_tokens", "<i>filler</i>", "cot_clean")
CLOSED = ("no_cot", "<i>filler</i>", "cot_clean")
"""Whose texts end in the same sentence."""
KEPT = ("normalised_entropy", "sink_mass", "effective_keys")
"""What is kept of the tokens of that sentence; of the others the first."""


def entropy_run(
    directory: Path,
    layers: int = LAYERS,
    heads: int = HEADS,
    n_problems: int = 8,
    conditions: tuple[str, ...] = CONDITIONS,
    seed: int = 0,
    tokens: bool = True,
) -> Path:
    """A measurement in which cot lowers the plain minimum of every head, and nothing else."""
    generator = np.random.default_rng(seed)
    units = [f"{HOSTILE[i]} {i}" if i < len(HOSTILE) else f"problem-{i}" for i in range(n_problems)]
    index = pd.MultiIndex.from_product(
        [conditions, units, range(layers), range(heads), list(METRICS), ["all", "answer"]],
        names=["condition", "unit", "layer", "head", "metric", "scope"],
    )
    table = index.to_frame(index=False)
    value = generator.uniform(0.4, 0.6, len(table))
    value[(table["condition"] == "cot") & (table["metric"] == "min")] -= 0.3
    n_tokens = np.where(table["condition"] == "no_cot", 7, 100)
    rows.write(directory / "rows.parquet", rows.table(run="tiny", value=value, n_tokens=n_tokens, **table))
    if tokens:
        kept = [name for name in conditions if name in ("cot", *CLOSED)]
        _tokens(units[: len(HOSTILE)], layers, heads, kept, generator).to_parquet(directory / "tokens.parquet")
    (directory / "fingerprint.json").write_text(json.dumps({"model": "<b>tiny</b>", "conditions": list(conditions)}))
    return directory


def _tokens(units: list[str], layers: int, heads: int, conditions: list[str], generator) -> pd.DataFrame:
    tables = []
    for unit in units:
        for condition in conditions:
            words = ["Question", unit, "?", "\n", f"<u>{condition}</u>", unit, "."]
            sentence = [" The", " answer", f" <b>{unit}</b>", "."] if condition in CLOSED else []
            for statistic, n, low in zip(KEPT, (0, len(words), len(words)), (0, 0, 1)):
                shape = (layers, heads, len(words) + len(sentence) - n)
                layer, head, position = np.indices(shape).reshape(3, -1)
                position += n
                part = np.digitize(position, [4, len(words)])
                columns = {
                    "run": "tiny",
                    "problem": unit,
                    "condition": condition,
                    "statistic": statistic,
                    "layer": layer,
                    "head": head,
                    "position": position + 1,
                    "token": np.asarray([*words, *sentence], dtype=object)[position],
                    "part": np.asarray(["question", "answer", "closing"], dtype=object)[part],
                    "value": generator.uniform(low, 20 * low + 1, len(layer)).astype(np.float32),
                }
                tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def toy_run(directory: Path, seeds: int = 2, moments: tuple[int, ...] = (1000, 2000, 3000)) -> Path:
    """A run of wen2024/fig3b: attention of 2 heads at several moments, for the test inputs and for two of them."""
    generator = np.random.default_rng(1)
    tables = [_toy_seed(str(seed), moments, generator) for seed in range(seeds)]
    table = rows.concat(tables)
    rows.write(directory / "rows.parquet", table)
    judged_run(directory, "wen2024/fig3b", table)
    config = {"claim": "wen2024/fig3b", "preset": "smoke", "seeds": seeds, "hostile": HOSTILE[0]}
    provenance = {"python": "3.11", "machine": "x", "packages": {"numpy": "2"}, "commit": "abc"}
    (directory / "config.json").write_text(json.dumps({"config": config, "provenance": provenance}))
    return directory


def plain_toy_run(directory: Path) -> Path:
    """The same without what no preset has: a run that can be published."""
    directory.mkdir()
    toy_run(directory)
    record = json.loads((directory / "config.json").read_text())
    del record["config"]["hostile"]
    (directory / "config.json").write_text(json.dumps(record))
    return directory


def judged_run(directory: Path, claim_id: str, table: pd.DataFrame) -> Record:
    """What `claims run` leaves beside the rows of a smoke run."""
    (claim,) = find_claims([claim_id])
    command = f"cotlens claims run {claim_id} --preset smoke --out runs/again"
    judgement = claim.judge(table, claim.preset("smoke"))
    record = Record(judgement, "smoke", command, claim.scale_of("smoke"), "exploratory")
    (directory / "verdicts.json").write_text(json.dumps([record.record()]))
    return record


def _toy_seed(seed: str, moments: tuple[int, ...], generator) -> pd.DataFrame:
    setting, queries, n_keys = "d_model=32 dropout=0.0 k=2 n=8", (8, 9), 10
    common = {"run": f"cot,seed={seed}", "condition": "cot", "unit": seed}
    tables = []
    for samples in moments:
        for scope in ("test", "input 0", "input 1"):
            query, key = np.repeat(queries, n_keys), np.tile(np.arange(n_keys), len(queries))
            at = {"setting": setting, "samples": samples, "scope": scope, **common}
            places = {"query": query, "key": key, **at}
            for head in range(2):
                weights = generator.dirichlet(np.ones(n_keys), 2).ravel()
                tables.append(rows.table(metric="attention", layer=0, head=head, value=weights, **places))
            mask = [float(key in (query - 8, 5)) for query in queries for key in range(n_keys)]
            tables.append(rows.table(metric="dependency", value=mask, **places))
            if scope != "test":
                bits = generator.integers(0, 2, n_keys).astype(float)
                tables.append(rows.table(metric="token", value=bits, key=range(n_keys), **at))
    evaluated = list(range(0, 3001, 250))
    curve = {"setting": setting, "scope": "validation", "samples": evaluated, **common}
    for metric in ("accuracy", "token_accuracy", "loss", "train_loss"):
        tables.append(rows.table(metric=metric, value=generator.uniform(0, 1, len(evaluated)), **curve))
    for head in range(2):
        entropy = generator.uniform(0, 1, len(evaluated))
        tables.append(rows.table(metric="entropy_min", layer=0, head=head, value=entropy, **curve))
    judged = {"setting": setting, "scope": "test", "samples": moments[-1], **common}
    metrics = ["top1_hit", "dependency_mass", "test_accuracy"]
    values = [*generator.uniform(0.2, 0.4, 2), 1.0]  # a model that has learned, with attention that is not one-hot
    tables.append(rows.table(metric=metrics, value=values, **judged))
    return rows.concat(tables)
