"""Does a rehearsal tell what a whole item costs, and what would not run?"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from hf_analysis.models import architectures
from hf_analysis.models.architectures import ARCHITECTURES, Architecture, find_architecture, random_model
from interp.commands.claims import main
from interp.core import claim as registry
from interp.core.claim import Claim, Item, load_claims
from interp.core.loops import evaluations, loop
from interp.core.plan import recorded
from interp.core.protocol import ROOT
from interp.cost import estimate as estimating
from interp.cost import memory
from interp.cost import rehearsal as rehearsing
from interp.cost.counting import QUANTITIES, Counting
from interp.cost.estimate import Estimate, estimate, outline
from interp.cost.gpus import GPUS, LAUNCH, find_gpu
from interp.cost.kinds import family_of, kind_of, largest
from interp.cost.rehearsal import Rehearsed, rehearse
from interp.cost.stand_ins import stand_in, with_known_size
from interp.report.ledger_pages import planned
from probes.rows import table

FLOPS, LAUNCHES = QUANTITIES.index("flops"), QUANTITIES.index("launches")
LOOPS = (loop("budget", "steps", size=4), evaluations("every", of="budget", inputs="n_test", few=8))
ID = "rehearsed2025/toy"
REHEARSE = estimating.Process.rehearse


@dataclass(frozen=True)
class Toy:
    """A preset of one item for each size."""

    sizes: tuple[int, ...] = (8, 16)
    seeds: int = 2
    first_unit: int = 0


def toy_items(preset: Toy) -> list[Item]:
    common = {"budget": 400, "every": 40, "n_test": 64, "lr": 0.1}
    return [
        Item(f"d={d},seed={seed}", {"d": d, "seed": seed, **common, "lr": 0.1 + seed})
        for d in preset.sizes
        for seed in range(preset.seeds)
    ]


def toy_measure(item: Item, work: Path) -> pd.DataFrame:
    """A product once, one of four rows for each step, and one of all test inputs for each evaluation."""
    p = item.parameters
    square = torch.ones(p["d"], p["d"])
    square @ square
    for seen in range(4, p["budget"] + 1, 4):
        torch.ones(4, p["d"]) @ square
        if seen % p["every"] == 0:
            torch.ones(p["n_test"], p["d"]) @ square
    return table(run=item.name, condition="toy", unit="0", metric="loss", scope="test", value=0.0)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A registered claim, rehearsed in this process."""
    like = load_claims()["li2024/fig5"]
    claim = replace(
        like, id=ID, presets=dict.fromkeys(like.presets, Toy()), items=toy_items, measure=toy_measure, loops=LOOPS
    )
    monkeypatch.setitem(registry.CLAIMS, ID, claim)
    monkeypatch.setattr(torch.cuda, "is_available", torch.cuda.is_available)  # `rehearse` puts its own there
    monkeypatch.setattr(estimating.Process, "rehearse", lambda self, *given: rehearse(*given))
    return claim


def counted(item: Item) -> np.ndarray:
    with Counting() as found:
        toy_measure(item, Path())
    return found.cost


def test_products_are_counted_in_full_and_views_not_at_all() -> None:
    with Counting() as found:
        (torch.ones(3, 5) @ torch.ones(5, 7)).T.reshape(-1)[2:]
    product, ones, copy = 2 * 3 * 5 * 7, 15 + 35, 21
    assert found.cost[FLOPS] == product + ones + copy  # the transpose cannot be reshaped without a copy
    assert found.cost[LAUNCHES] == 4


def test_a_linear_layer_in_inference_mode_is_the_product_that_it_is() -> None:
    with torch.inference_mode(), Counting() as found:
        torch.nn.functional.linear(torch.ones(3, 5), torch.ones(7, 5))
    assert found.cost[FLOPS] == 2 * 3 * 5 * 7 + 15 + 35


def test_an_embedding_moves_what_it_reads_and_not_its_table() -> None:
    table, places = torch.zeros(10**6, 8), torch.tensor([3])
    with Counting() as found:
        torch.nn.functional.embedding(places, table)
    assert found.cost[QUANTITIES.index("T4")] == LAUNCH


def test_a_gpu_is_as_slow_as_what_limits_it() -> None:
    gpu = find_gpu("a100")
    assert gpu.seconds(0, 0, "float32") == LAUNCH
    assert gpu.seconds(312e12, 0, "bfloat16") == pytest.approx(2.0)  # half of the peak
    assert gpu.seconds(0, 2.0e12, "float32") == pytest.approx(1 / 0.7)
    with pytest.raises(ValueError, match=r"--gpu V100: unknown; the GPUs are T4, A100, H100"):
        find_gpu("V100")


def test_a_short_run_tells_what_the_whole_item_computes(toy: Claim) -> None:
    for item in toy_items(Toy()):
        found = rehearse(ID, item)
        assert not found.error
        total = found.once + sum(one.count(item.parameters) * each for one, each in zip(LOOPS, found.each))
        whole = counted(item)
        assert total[FLOPS] == pytest.approx(whole[FLOPS])
        assert total[LAUNCHES] > whole[LAUNCHES]  # an evaluation on 64 inputs counts as eight on 8


def test_an_estimate_adds_up_all_items_from_one_of_each_kind(toy: Claim) -> None:
    items = toy_items(Toy())
    found = estimate(toy, "paper", Toy(), every_kind=True)
    assert (found.outline.items, found.outline.kinds, found.tried) == (4, 2, 2)
    assert found.flops == pytest.approx(sum(counted(item)[FLOPS] for item in items))
    assert found.outline.repeats == {"steps": 400.0, "evaluations on 8 inputs": 320.0}
    assert set(found.memory) == {kind_of(toy, item) for item in items}
    assert found.gpu_seconds == {}  # nothing of ours asked for one
    assert any("its items use no GPU" in line for line in found.lines(GPUS["T4"]))
    few = estimate(toy, "paper", Toy(), every_kind=False)
    assert few.tried == 1
    assert few.flops == pytest.approx(4 * counted(items[-1])[FLOPS])  # the larger kind stands for both


def test_repetitions_too_short_to_be_seen_are_many(toy: Claim, monkeypatch) -> None:
    """0.1 s once, and 0.2 ms for each of 1,000 steps."""

    def wait(seconds: float) -> None:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    def measure(item: Item, work: Path) -> pd.DataFrame:
        wait(0.1 + 2e-4 * item.parameters["n"])
        return table(run=item.name, condition="toy", unit="0", metric="loss", scope="test", value=0.0)

    steps = (loop("n", "steps"),)
    monkeypatch.setitem(registry.CLAIMS, ID, replace(toy, measure=measure, loops=steps))
    (each,) = rehearse(ID, Item("n=1000", {"n": 1000})).each
    assert each[0] == pytest.approx(2e-4, rel=0.5)


def test_operations_that_grow_with_a_loop_wait_for_one_launch(toy: Claim, monkeypatch) -> None:
    """Small, they take as long as launches; large, as long as their arithmetic."""

    def measure(item: Item, work: Path) -> pd.DataFrame:
        torch.ones(item.parameters["n"], 64) @ torch.ones(64, 64)
        return table(run=item.name, condition="toy", unit="0", metric="loss", scope="test", value=0.0)

    n = 10**9
    monkeypatch.setattr(rehearsing, "SEEN", -1e9)  # nothing is too short, even if more takes less by the clock
    monkeypatch.setitem(registry.CLAIMS, ID, replace(toy, measure=measure, loops=(loop("n", "rows"),)))
    item = Item("n=1e9", {"n": n})
    found = rehearse(ID, item)
    total = found.once + n * found.each[0]
    flops = 2 * n * 64 * 64
    assert total[QUANTITIES.index("A100")] == pytest.approx(3 * LAUNCH)
    assert total[QUANTITIES.index("A100 busy")] > flops / GPUS["A100"].peaks["float32"]


def test_a_slow_kind_is_run_once_beside_the_largest_of_its_family(toy: Claim, monkeypatch) -> None:
    monkeypatch.setattr(rehearsing, "BRIEF", -1.0)
    small, _, large, _ = toy_items(Toy())
    whole, once = rehearse(ID, large), rehearse(ID, small, brief=True)
    assert len(whole.each) == 2
    assert len(once.each) == 0
    assert once.base[FLOPS] == rehearse(ID, small).base[FLOPS]
    found = estimate(toy, "paper", Toy(), every_kind=True)
    assert (found.tried, found.failed) == (2, {})
    times = once.base[FLOPS] / whole.base[FLOPS]
    assert found.flops == pytest.approx(2 * (1 + times) * counted(large)[FLOPS])
    assert set(found.memory) == {kind_of(toy, small), kind_of(toy, large)}


def test_what_counting_takes_is_not_an_items_time(toy: Claim, monkeypatch) -> None:
    """Thousands of small operations, which take longer to count than to do."""
    many = Item("d=8", {**toy_items(Toy())[0].parameters, "budget": 40_000, "every": 40_000})
    started = time.process_time()
    toy_measure(many, Path())
    alone = time.process_time() - started
    monkeypatch.setitem(registry.CLAIMS, ID, replace(toy, loops=()))
    found = [rehearse(ID, many) for _ in range(5)]
    assert min(one.base[LAUNCHES] for one in found) > 10_000
    assert min(one.base[0] for one in found) < 3 * alone + 0.1  # by the clock: a busy machine may take longer once


def test_a_recorded_plan_is_shown_and_not_made_again(toy: Claim, tmp_path: Path, capsys, monkeypatch) -> None:
    words = ["plan", ID, "--dry-run", "--record", str(tmp_path), "--resume"]
    main(words)
    (record,) = recorded(ID, tmp_path).values()
    assert Estimate.read(record) == Estimate.read(Estimate.read(record).record())
    assert "- tried 2 items, cut short: 2 ran" in planned(ID, tmp_path)
    assert planned("rehearsed2025/other", tmp_path) == ""
    capsys.readouterr()
    main(words)
    assert capsys.readouterr().out == ""
    monkeypatch.setitem(registry.CLAIMS, ID, replace(toy, presets=dict.fromkeys(toy.presets, Toy(seeds=3))))
    main([word for word in words if word != "--dry-run"])  # the preset has changed
    assert "6 items of 2 kinds" in capsys.readouterr().out
    main(words)  # only the larger of the two kinds has been tried
    assert "[2/2]" in capsys.readouterr().out
    with pytest.raises(ValueError, match="Name their directory with --record"):
        main(["plan", ID, "--resume"])


@pytest.fixture
def tried(monkeypatch) -> list[str]:
    """The items tried, in their order; the second try is interrupted."""
    tried: list[str] = []

    def until_killed(self, claim_id: str, item: Item, *options) -> Rehearsed:
        tried.append(item.name)
        if len(tried) == 2:
            raise KeyboardInterrupt
        return rehearse(claim_id, item, *options)

    monkeypatch.setattr(estimating.Process, "rehearse", until_killed)
    return tried


def test_a_killed_plan_goes_on_with_the_next_kind(toy: Claim, tmp_path: Path, tried: list[str]) -> None:
    words = ["plan", ID, "--dry-run", "--record", str(tmp_path), "--resume"]
    with pytest.raises(KeyboardInterrupt):
        main(words)
    assert not (tmp_path / "plans.json").exists()
    main(words)
    assert tried == ["d=16,seed=0", "d=8,seed=0", "d=8,seed=0"]  # the largest first
    (record,) = recorded(ID, tmp_path).values()
    assert record["flops"] == pytest.approx(sum(counted(item)[FLOPS] for item in toy_items(Toy())))
    assert not [file for file in tmp_path.rglob("*.json") if file.name != "plans.json"]


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_what_is_tried_is_told_before_it_takes_its_time(toy: Claim, capsys, monkeypatch, more: list[str]) -> None:
    said = []

    def listening(self, claim_id: str, item: Item, *options) -> Rehearsed:
        said.append(capsys.readouterr().out.splitlines()[-1])
        return rehearse(claim_id, item, *options)

    monkeypatch.setattr(estimating.Process, "rehearse", listening)
    main(["plan", ID, *more])
    n, like = (2, 2) if more else (1, 4)
    assert said[0] == f"{ID} [1/{n}] trying d=16,seed=0, the largest of {like} items like it, cut short"
    assert len(said) == n


def test_an_item_that_is_tried_for_long_is_told_of_again(toy: Claim, monkeypatch) -> None:
    monkeypatch.setattr(estimating.Process, "rehearse", REHEARSE)
    monkeypatch.setattr(estimating, "PATIENCE", 0.05)
    monkeypatch.setattr(estimating, "rehearse", lambda *given: time.sleep(0.3) or Rehearsed())
    said: list[str] = []
    process = estimating.Process(said.append)
    process.pool = ThreadPoolExecutor(1)  # pyright: ignore[reportAttributeAccessIssue]
    assert not process.rehearse(ID, toy_items(Toy())[0]).error
    assert said[0] == f"{ID}: still trying d=8,seed=0, 0 seconds so far"
    process.close()


def test_a_killed_plan_that_records_keeps_what_it_tried_for_resume(
    toy: Claim, tmp_path: Path, tried: list[str]
) -> None:
    words = ["plan", ID, "--dry-run", "--record", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        main(words)
    main([*words, "--resume"])
    assert tried == ["d=16,seed=0", "d=8,seed=0", "d=8,seed=0"]
    main(words)  # without --resume everything is tried again
    assert len(tried) == 5


def test_learning_rates_and_seeds_make_no_kinds_and_sizes_no_families(toy: Claim) -> None:
    small, other, large, _ = toy_items(Toy())
    assert kind_of(toy, small) == kind_of(toy, other) != kind_of(toy, large)
    assert family_of(toy, small) == family_of(toy, large)
    assert largest(toy, [small, large, other]) == large


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda item, work: torch.ones(2, 3) @ torch.ones(2, 3), "RuntimeError: mat1 and mat2 shapes"),
        (lambda item, work: torch.empty(10**13), "RuntimeError: "),
        (lambda item, work: pd.DataFrame(), "ValueError: the item has no rows"),
    ],
)
def test_what_does_not_run_is_told_in_a_line(toy: Claim, monkeypatch: pytest.MonkeyPatch, broken, says: str) -> None:
    monkeypatch.setitem(registry.CLAIMS, ID, replace(toy, measure=broken))
    found = estimate(registry.CLAIMS[ID], "paper", Toy(sizes=(8,)), every_kind=True)
    (error,) = found.failed.values()
    assert error.startswith(says)
    assert "\n" not in error
    assert any(line.startswith("fails: d=8,seed=0: ") for line in found.lines(GPUS["T4"]))


def test_the_published_sizes_of_models() -> None:
    """Numbers of parameters that the models' cards give."""
    assert find_architecture("Qwen/Qwen2-7B").parameters == 7_615_616_512
    assert find_architecture("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B").parameters == 14_770_033_664
    assert find_architecture("Qwen/Qwen2-72B").parameters == 72_706_203_648
    with pytest.raises(ValueError, match="the sizes of a/b are not known here; known are Qwen/Qwen2-7B, "):
        find_architecture("a/b")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Architecture:
    """All models of the hub are small."""
    sizes = Architecture(64, 96, 28, 4, 2, d_vocab=49_152)
    monkeypatch.setattr(architectures, "ARCHITECTURES", dict.fromkeys(ARCHITECTURES, sizes))
    monkeypatch.setattr(torch.cuda, "is_available", torch.cuda.is_available)
    return sizes


def test_a_random_model_has_the_layers_that_were_asked_for(small: Architecture) -> None:
    model = random_model("Qwen/Qwen2-7B", 2)
    assert model.n_layers == 2
    assert sum(p.numel() for p in model.model.parameters()) == replace(small, n_layers=2).parameters
    ends = 2 * small.d_vocab * small.d_model + small.d_model
    assert small.parameters == 28 * small.layer_parameters + ends


@pytest.mark.parametrize("claim_id", ["wen2024/fig6", "bogdan2025/receiver-heads"])
def test_a_claim_about_the_hubs_models_is_tried_without_the_hub(small: Architecture, claim_id: str) -> None:
    claim = load_claims()[claim_id]
    item = claim.items(with_known_size(claim.presets["paper"]))[0]
    assert stand_in(item.parameters, 1).n_layers == 28
    found = rehearse(claim_id, item)
    assert found.error == ""
    assert found.asks_for_gpu
    two = rehearse(claim_id, item, 2, False)
    assert two.base[FLOPS] > found.base[FLOPS]
    told = "; ".join(outline(claim, "paper", claim.presets["paper"]).lines())
    assert "not fetched, so not tried: " in told
    assert "tried instead: 1 of 28 layers, random; built-in text" in told


def test_a_dead_process_is_a_failure_and_not_the_end() -> None:
    process = estimating.Process()
    try:
        found = process.rehearse("wen2024/fig3b", Item("any"))
        assert found.error.startswith("KeyError")  # an item without its parameters: the process lives
        assert process.pool is not None
        for child in list(process.pool._processes.values()):
            child.kill()
            child.join()
        dead = process.rehearse("any", Item("any"))
        assert dead.error == "the process was killed, perhaps for lack of memory"
    finally:
        process.close()


PLANNING = """
import os, signal
from interp.cost.estimate import Process

print(Process().started().submit(os.getpid).result(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_plan_leaves_no_process_behind() -> None:
    """Its process has the same output, which ends when both have."""
    with subprocess.Popen([sys.executable, "-c", PLANNING], stdout=subprocess.PIPE, cwd=ROOT) as planning:
        assert planning.stdout is not None
        child = int(planning.stdout.readline())
        assert planning.wait() == -signal.SIGKILL
        ended, _, _ = select.select([planning.stdout], [], [], 120)
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended


def test_after_a_large_item_the_next_has_a_process_of_its_own(toy: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating.Process, "rehearse", REHEARSE)
    process = estimating.Process()
    process.pool = pool = ThreadPoolExecutor(1)  # pyright: ignore[reportAttributeAccessIssue]
    item = toy_items(Toy())[0]
    monkeypatch.setattr(estimating, "LARGE", float("inf"))
    assert not process.rehearse(ID, item).error
    assert process.pool is pool
    monkeypatch.setattr(estimating, "LARGE", -1.0)
    assert not process.rehearse(ID, item).error
    assert process.pool is None


def test_where_the_system_tells_no_memory_the_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: neither limits nor counters."""
    assert memory.peak() > 0
    monkeypatch.setattr(memory, "resource", None)
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none")
    with memory.limited_memory():
        pass
    with pytest.raises(ValueError, match="plan on Linux or macOS"):
        memory.peak()


def endless(claim_id: str, item: Item, *options) -> Rehearsed:
    """In place of `rehearse`: longer than anyone waits."""
    time.sleep(60)
    return Rehearsed()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="interrupts cannot wait on this system")
def test_an_interrupt_ends_the_process_that_rehearses(monkeypatch, interruptible, terminated) -> None:
    monkeypatch.setattr(estimating.Process, "rehearse", REHEARSE)
    monkeypatch.setattr(estimating, "rehearse", endless)
    process = estimating.Process()

    def interrupt() -> None:
        deadline = time.monotonic() + 300
        while not process.workers and time.monotonic() < deadline:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        process.rehearse(ID, toy_items(Toy())[0])
    (started,) = process.workers
    assert terminated(started)
