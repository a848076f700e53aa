"""What a run will take, from the published run of the same claim."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from interp.core.claim import Item, load_claims
from interp.core.plan import PLANS, plan, seconds_by_kind
from interp.core.protocol import RESULTS
from interp.cost.kinds import kind_of

CLAIM = load_claims()["wen2024/fig3b"]


def provenance() -> dict[str, float]:
    return json.loads((RESULTS / CLAIM.id / "provenance.json").read_text())["seconds"]


def test_missing_items_take_the_mean_of_their_kind(tmp_path):
    known = seconds_by_kind(CLAIM.id, RESULTS)
    kind = min(known)
    name = next(name for name in provenance() if name.startswith(kind.rstrip(",")))
    items = [Item(name.rpartition("seed=")[0] + f"seed={seed}", {}) for seed in (2000, 2001, 2002)]
    done = tmp_path / "items" / items[0].name
    done.mkdir(parents=True)
    (done / "rows.parquet").touch()
    found = plan(CLAIM, items, tmp_path, RESULTS)
    assert (found.items, found.missing) == (3, 2)
    assert found.seconds == pytest.approx(2 * known[kind])
    assert "3 items, 2 of them missing; about" in found.sentence(1)
    assert found.sentence(2).startswith(f"{CLAIM.id}: 3 items")


def test_the_published_run_itself_takes_its_own_seconds():
    seconds = provenance()
    found = plan(CLAIM, [Item(name, {}) for name in seconds], Path("nowhere"), RESULTS)
    assert found.seconds == pytest.approx(sum(seconds.values()))


def test_what_was_never_run_is_not_guessed(tmp_path):
    assert plan(CLAIM, [Item("unheard-of", {})], tmp_path, RESULTS).seconds is None
    assert "not known" in plan(CLAIM, [Item("seed=1", {})], tmp_path, tmp_path).sentence(2)


@dataclass(frozen=True)
class Sizes:
    """A preset of one item for each width."""

    widths: tuple[int, ...]
    cot: bool = True
    seeds: int = 2
    first_unit: int = 0


def widths(preset: Sizes) -> list[Item]:
    common = {"cot": preset.cot, "lr": 0.1, "layers": [4, 4]}
    return [
        Item(f"d={d},seed={seed}", {"d": d, "seed": seed, **common})
        for d in preset.widths
        for seed in range(preset.seeds)
    ]


def test_memory_is_that_of_the_same_kinds_or_at_most_that_of_larger_ones(tmp_path):
    presets = {"smoke": Sizes((8,)), "cpu": Sizes((16, 48)), "paper": Sizes((16, 32, 64))}
    claim = replace(CLAIM, presets=presets, items=widths, loops=())
    by_width = {16: 1e9, 32: 2e9, 64: 4e9}
    memory = {kind_of(claim, item): by_width[item.parameters["d"]] for item in widths(presets["paper"])}

    def told(preset: Sizes) -> str:
        return plan(claim, widths(preset), tmp_path, tmp_path).sentence(1)

    assert told(presets["cpu"]).endswith("how much memory they take is not known: cotlens claims plan tells")
    (tmp_path / PLANS).write_text(json.dumps({claim.id: {"paper": {"memory": memory}}}))
    assert told(Sizes((16, 32))).endswith("; about 2.0 GB for each worker")
    assert told(presets["cpu"]).endswith("; at most 4.0 GB for each worker")
    assert told(presets["smoke"]).endswith("; at most 1.0 GB for each worker")
    assert "memory they take is not known" in told(Sizes((16, 65)))  # larger than any that was tried
    assert "memory they take is not known" in told(Sizes((16,), cot=False))  # something else
