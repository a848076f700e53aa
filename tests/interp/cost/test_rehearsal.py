"""Does a rehearsal tell what a whole item costs, and what would not run?"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from hf_analysis.models import architectures
from hf_analysis.models.architectures import ARCHITECTURES, Architecture, find_architecture, random_model
from interp.core import claim as registry
from interp.core.claim import Claim, Item, load_claims
from interp.core.loops import evaluations, loop
from interp.cost import estimate as estimating
from interp.cost.counting import QUANTITIES, Counting
from interp.cost.estimate import estimate, outline
from interp.cost.gpus import GPUS, LAUNCH, find_gpu
from interp.cost.kinds import family_of, kind_of, largest
from interp.cost.rehearsal import rehearse
from interp.cost.stand_ins import stand_in, with_known_size
from probes.rows import table

FLOPS, LAUNCHES = QUANTITIES.index("flops"), QUANTITIES.index("launches")
LOOPS = (loop("budget", "steps", size=4), evaluations("every", of="budget", inputs="n_test", few=8))
ID = "rehearsed2025/toy"


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
    monkeypatch.setattr(estimating._Process, "rehearse", lambda self, *given: rehearse(*given))
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
    process = estimating._Process()
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
