"""What a run will take, from the published run of the same claim."""

import json
from pathlib import Path

import pytest

from interp.core.claim import Item, load_claims
from interp.core.plan import plan, seconds_by_kind
from interp.core.protocol import RESULTS

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
