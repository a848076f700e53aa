"""Running a claim: interrupted, resumed, and on several processes the same rows."""

import dataclasses
import multiprocessing
import signal
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

import interp.core.engine
import interp.core.sweep
from interp.core.claim import load_claims
from interp.core.engine import Local
from interp.core.sweep import Pace, kinds_of, run_claim, seeded
from probes import rows


@pytest.fixture
def claim():
    return load_claims()["wen2024/fig3b"]


@pytest.fixture
def tiny(claim):
    """Four runs of a second or less."""
    smoke = claim.presets["smoke"]
    return dataclasses.replace(smoke, widths=(dataclasses.replace(smoke.widths[0], budget=2048),), seeds=4)


def files(directory) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def outcome(directory) -> dict[str, bytes]:
    """What a run is about: not the configuration's record of the moment, nor the seconds that items took."""
    moment = ("config.json", "seconds.json")
    return {name: data for name, data in files(directory).items() if not name.endswith(moment)}


def endless_but_one(claim_id: str, item, out) -> float:
    """In place of `measure_item`: the first item is there at once, the others take longer than anyone waits."""
    if item.parameters["seed"]:
        time.sleep(60)
    return 0.0


def test_an_interrupted_sweep_resumes_to_the_same_files(claim, tiny, tmp_path, monkeypatch):
    run_claim(claim, "smoke", tmp_path / "whole", preset=tiny)
    original, done = interp.core.engine.measure_item, []

    def twice(claim_id, item, out):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(item.name)
        return original(claim_id, item, out)

    monkeypatch.setattr(interp.core.engine, "measure_item", twice)
    with pytest.raises(KeyboardInterrupt):
        run_claim(claim, "smoke", tmp_path / "cut", preset=tiny)
    assert not (tmp_path / "cut" / "verdicts.json").exists()
    done.clear()

    def counted(claim_id, item, out):
        done.append(item.name)
        return original(claim_id, item, out)

    monkeypatch.setattr(interp.core.engine, "measure_item", counted)
    run_claim(claim, "smoke", tmp_path / "cut", preset=tiny, resume=True)
    assert len(done) == 2, "finished items were measured again"
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_a_finished_sweep_is_resumed_without_work(claim, tiny, tmp_path, monkeypatch):
    record, before = run_claim(claim, "smoke", tmp_path / "r", preset=seeded(tiny, 2)), files(tmp_path / "r")
    monkeypatch.setattr(interp.core.engine, "measure_item", lambda *_: pytest.fail("an item was measured again"))
    said = []
    again = run_claim(claim, "smoke", tmp_path / "r", preset=seeded(tiny, 2), resume=True, report=said.append)
    assert again == record
    assert files(tmp_path / "r") == before
    assert said == [f"{claim.id}: 2 of 2 items are done already"]


def test_seconds_of_an_item_are_the_processors(claim, tiny, tmp_path, monkeypatch):
    """So a busy machine, or a sleeping item, adds none."""
    table = claim.measure(claim.items(tiny)[0], tmp_path)

    def asleep(item, work):
        time.sleep(1)
        return table

    monkeypatch.setitem(interp.core.engine.CLAIMS, claim.id, dataclasses.replace(claim, measure=asleep))
    assert interp.core.engine.measure_item(claim.id, claim.items(tiny)[0], tmp_path / "r") < 1


def test_seeds_override_the_preset(claim, tiny, tmp_path):
    run_claim(claim, "smoke", tmp_path / "r", preset=seeded(tiny, 2))
    assert rows.read(tmp_path / "r" / "rows.parquet")["unit"].unique().tolist() == ["0", "1"]
    with pytest.raises(ValueError, match=r"holds another run.*seeds: 2 there, 3 here"):
        run_claim(claim, "smoke", tmp_path / "r", preset=seeded(tiny, 3), resume=True)


def test_a_damaged_item_is_named_and_kept(claim, tiny, tmp_path):
    run_claim(claim, "smoke", tmp_path / "r", preset=seeded(tiny, 2))
    damaged = next((tmp_path / "r" / "items").glob("*/rows.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    before = files(tmp_path / "r")
    with pytest.raises(ValueError, match="is not a readable table of rows") as refusal:
        run_claim(claim, "smoke", tmp_path / "r", preset=seeded(tiny, 2), resume=True)
    assert str(damaged) in str(refusal.value)
    assert files(tmp_path / "r") == before


def test_items_of_two_versions_are_not_mixed(claim, tiny, tmp_path, monkeypatch):
    out = tmp_path / "r"
    whole = run_claim(claim, "smoke", out, preset=seeded(tiny, 2))
    item = next((out / "items").iterdir())
    kept = (item / "rows.parquet").read_bytes()
    monkeypatch.setattr("probes.base.identity.versions", lambda names: dict.fromkeys(names, "9.9"))
    assert run_claim(claim, "smoke", out, preset=seeded(tiny, 2), resume=True) == whole  # finished: nothing is mixed
    (item / "rows.parquet").unlink()
    before = files(out)
    with pytest.raises(ValueError, match=r"was begun by other versions \(cotlens .* there, 9\.9 here; torch"):
        run_claim(claim, "smoke", out, preset=seeded(tiny, 2), resume=True)
    assert files(out) == before
    monkeypatch.undo()
    run_claim(claim, "smoke", out, preset=seeded(tiny, 2), resume=True)
    assert (item / "rows.parquet").read_bytes() == kept


def test_items_of_one_name_are_refused(claim, tiny, tmp_path):
    twice = dataclasses.replace(claim, items=lambda preset: claim.items(preset) * 2)
    with pytest.raises(ValueError, match="two items of one name"):
        run_claim(twice, "smoke", tmp_path / "r", preset=tiny)


def test_progress_names_the_items_and_counts_over_all_claims(claim, tiny, tmp_path):
    preset = seeded(tiny, 2)
    said, pace = [], Pace(["earlier"] * 4 + kinds_of(claim, claim.items(preset)))
    pace.skip(["earlier"] * 4)
    run_claim(claim, "smoke", tmp_path / "r", preset=preset, pace=pace, report=said.append)
    assert [line.split(",")[0] for line in said] == ["wen2024/fig3b cot", "wen2024/fig3b cot"]
    assert ["[5/6, about" in said[0], "[6/6, about 0 seconds left]" in said[1]] == [True, True]


def test_the_time_left_waits_for_one_item_of_each_kind(monkeypatch):
    """Two slow items and four quick ones on one core: the first takes 100 seconds, a quick one 2."""
    now = iter([0.0, 102.0, 104.0])
    monkeypatch.setattr(interp.core.sweep.time, "monotonic", lambda: next(now))
    pace = Pace(["slow"] * 2 + ["quick"] * 4)
    assert pace.done("slow", 100.0) == "[1/6]"
    assert pace.done("quick", 2.0) == "[2/6, about 106 seconds left]"
    now = iter([10.0, 20.0])
    many = Pace(f"kind {number}" for number in range(10))
    told = [many.done(f"kind {number}", 2.0) for number in range(5)]
    assert told[:4] == [f"[{number}/10]" for number in range(1, 5)]
    assert told[4] == "[5/10, about 10 seconds left]"  # several are done: their mean stands for the other kinds


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="interrupts cannot wait on this system")
def test_an_interrupt_while_the_workers_are_ended_leaves_none_behind(
    claim, tiny, tmp_path, monkeypatch, interruptible, terminated
):
    original = ProcessPoolExecutor.shutdown

    def interrupted(pool, *arguments, **options):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        original(pool, *arguments, **options)

    monkeypatch.setattr(interp.core.engine, "measure_item", endless_but_one)
    others = set(multiprocessing.active_children())
    measured = Local(2).measured(claim.id, claim.items(tiny), tmp_path)
    next(measured)
    begun = set(multiprocessing.active_children()) - others
    monkeypatch.setattr(ProcessPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured.throw(KeyboardInterrupt)  # pyright: ignore[reportAttributeAccessIssue]
    assert begun
    assert all(map(terminated, begun))


@pytest.mark.usefixtures("drawn")
def test_two_workers_give_the_same_files_as_one(claim, tiny, tmp_path):
    for workers in (1, 2):
        run_claim(claim, "smoke", tmp_path / str(workers), preset=tiny, workers=workers)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")
    assert {figure.suffix for figure in (tmp_path / "1" / "figures").iterdir()} == {".png", ".pdf"}
