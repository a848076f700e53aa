"""Is what a plan does not run counted in full? Loops within loops, kinds that larger ones bound, memory, imports."""

import builtins
import importlib
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from interp.commands.claims import main
from interp.core import claim as registry
from interp.core.claim import Claim, Item, load_claims
from interp.core.loops import entries, loop, nested, shortened
from interp.core.plan import recorded
from interp.cost import estimate as estimating
from interp.cost.counting import QUANTITIES, Counting
from interp.cost.estimate import Estimate, estimate
from interp.cost.gpus import GPUS
from interp.cost.imports import Imports
from interp.cost.kinds import kind_of
from interp.cost.rehearsal import rehearse
from probes.rows import table

FLOPS = QUANTITIES.index("flops")
ID = "rehearsed2025/sizes"
LOOPS = (
    loop("steps", "steps"),
    nested("settings", "queries", "queries of all settings"),
    entries("errors", "errors"),
)


def items(sizes: tuple[int, ...]) -> list[Item]:
    common = {"steps": 6, "settings": [0.1, 0.2, 0.3], "queries": 5, "errors": [0.5, 0.6], "width": 3}
    return [Item(f"d={d}", {"d": d, **common}) for d in sizes]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """One product for each step, each query of each setting, and each error, and one in all."""
    p = item.parameters
    square = torch.ones(p["d"], p["d"])
    for _ in range(1 + p["steps"] + len(p["settings"]) * p["queries"] + len(p["errors"])):
        square @ square
    return table(run=item.name, condition="toy", unit="0", metric="loss", scope="test", value=0.0)


def flops(item: Item) -> float:
    with Counting() as counted:
        measure(item, Path())
    return float(counted.cost[FLOPS])


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A registered claim of one item of each size, rehearsed in this process; its preset holds the sizes."""
    like = load_claims()["li2024/fig5"]
    presets = dict.fromkeys(like.presets, like.presets["smoke"])
    claim = replace(
        like, id=ID, presets=presets, items=lambda _: items((8, 12, 16, 20, 24)), measure=measure, loops=LOOPS
    )
    monkeypatch.setitem(registry.CLAIMS, ID, claim)
    monkeypatch.setattr(torch.cuda, "is_available", torch.cuda.is_available)  # `rehearse` puts its own there
    monkeypatch.setattr(estimating.Process, "rehearse", lambda self, *given: rehearse(*given))
    return claim


def test_loops_over_lists_and_within_them_are_counted_in_full(sizes: Claim) -> None:
    (item,) = items((8,))
    assert [one.count(item.parameters) for one in LOOPS] == [6, 15, 2]
    least = {"steps": 1, "settings": [0.1], "queries": 1, "errors": [0.5]}
    assert shortened(item.parameters, LOOPS) == item.parameters | least
    found = rehearse(ID, item)
    total = found.once + sum(one.count(item.parameters) * each for one, each in zip(LOOPS, found.each))
    assert total[FLOPS] == pytest.approx(flops(item))


def test_kinds_within_one_that_ran_are_not_tried_after_a_minute(sizes: Claim, tmp_path: Path, monkeypatch) -> None:
    every = estimate(sizes, "paper", sizes.preset("paper"), every_kind=True)
    assert (every.tried, every.bounded) == (5, 0)
    assert every.flops == pytest.approx(sum(map(flops, items((8, 12, 16, 20, 24)))))
    monkeypatch.setattr(estimating, "ENOUGH", -1.0)
    said: list[str] = []
    found = estimate(sizes, "paper", sizes.preset("paper"), True, said.append)
    (largest,) = items((24,))
    assert (found.tried, found.bounded, found.outline.kinds) == (1, 4, 5)
    assert found.flops == pytest.approx(5 * flops(largest))
    assert set(found.memory) == {kind_of(sizes, largest)}  # `claims run` says of the others that it is at most this
    assert f"{ID} [2/5] d=8 is counted as d=24, which is larger" in said
    told = "\n".join(found.lines(GPUS["T4"]))
    assert "; 4 smaller kinds not tried, and counted as larger ones that ran" in told
    assert found.answers(found.outline, every_kind=True)
    words = ["plan", ID, "--dry-run", "--record", str(tmp_path)]
    main(words)
    assert Estimate.read(recorded(ID, tmp_path)["paper"]).bounded == 4


def test_a_kind_is_counted_as_the_smallest_that_holds_it(sizes: Claim, monkeypatch) -> None:
    """Tried are the largest, the smallest and the one amid them; the fourth is no larger than the third."""
    tried: list[str] = []

    def two_minutes_for_three(self, claim_id: str, item: Item, *options):
        tried.append(item.name)
        return replace(rehearse(claim_id, item, *options), took=25.0)

    monkeypatch.setattr(estimating.Process, "rehearse", two_minutes_for_three)
    found = estimate(sizes, "paper", sizes.preset("paper"), every_kind=True)
    assert tried == ["d=24", "d=8", "d=16"]
    assert found.flops == pytest.approx(sum(map(flops, items((24, 24, 16, 16, 8)))))


def test_what_is_larger_in_a_number_is_tried_however_long_it_takes(sizes: Claim, monkeypatch) -> None:
    monkeypatch.setattr(estimating, "ENOUGH", -1.0)
    wide, deep = items((8, 24))
    wide = Item("wide", {**wide.parameters, "width": 20})
    claim = replace(sizes, items=lambda _: [wide, deep])
    monkeypatch.setitem(registry.CLAIMS, ID, claim)
    found = estimate(claim, "paper", claim.preset("paper"), every_kind=True)
    assert (found.tried, found.bounded) == (2, 0)


def test_what_all_repetitions_hold_at_once_is_added(sizes: Claim, monkeypatch) -> None:
    held = (loop("steps", "steps", holds=lambda p: 1e12 * p["d"]),)
    (item,) = items((8,))
    without = rehearse(ID, item)
    monkeypatch.setitem(registry.CLAIMS, ID, replace(sizes, loops=held))
    found = rehearse(ID, item)
    assert found.memory - without.memory == pytest.approx(5 * 8e12, rel=0.01)  # of six steps a rehearsal has one
    assert found.working == pytest.approx(5 * 8e12, rel=0.01)


def test_importing_is_timed_once_whatever_it_imports(tmp_path: Path, monkeypatch) -> None:
    wait = "import time\nuntil = time.process_time() + 0.05\nwhile time.process_time() < until:\n    pass\n"
    (tmp_path / "imported_inside.py").write_text(wait)
    (tmp_path / "imported_slowly.py").write_text(wait + "import imported_inside\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = builtins.__import__, importlib.import_module
    with Imports() as imports:
        started = time.process_time()
        importlib.import_module("imported_slowly")
        taken = time.process_time() - started
    assert 0.1 <= imports.seconds <= taken
    assert (builtins.__import__, importlib.import_module) == before
