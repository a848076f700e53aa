"""What every registered task and every registered claim must do; a new one is tested without editing this file."""

import dataclasses
import itertools
import json
import shutil
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import pytest
import torch

import interp.core.engine
import interp.figures.style
from interp.core import sweep
from interp.core.claim import CLAIMS, PRESETS, Claim, find_claims, load_claims
from interp.core.claim import register as register_claim
from interp.core.engine import rows_file
from interp.core.judgement import filled
from interp.core.ledger import read_records
from interp.core.loops import shortened
from interp.core.parts import check_parts
from interp.core.severity import severity
from interp.core.sweep import run_claim
from interp.core.verdict import untestable
from interp.cost.estimate import outline
from interp.cost.kinds import active
from interp.cost.stand_ins import with_known_size
from probes import rows
from probes.base.atomic import read_json
from tests.golden import differences, stored, summary
from tests.smoke_runs import smoke_run as smoke_run_of
from tests.tiers import slow_but
from toy_models.parity.task import Parity
from toy_models.task import TASKS, UNSUPERVISED, Batch, Task, is_causal, load_tasks, register, task_class

GOLDEN = stored()
DRAWS = 2
"""Simulated experiments in each world of a claim: gross errors alone; `results/severity.json` has a hundred."""


def variants(kind: type) -> list[Task]:
    """The task with its default parameters, and with every combination of its switches."""
    switches = [field.name for field in dataclasses.fields(kind) if isinstance(field.default, bool)]
    combinations = itertools.product((False, True), repeat=len(switches))
    return [kind(**dict(zip(switches, values))) for values in combinations]


@pytest.fixture(params=[t for kind in load_tasks().values() for t in variants(kind)], ids=repr)
def task(request) -> Task:
    return request.param


def sampled(task: Task, size: int = 16, seed: int = 0) -> Batch:
    return task.sample(size, torch.Generator().manual_seed(seed))


def changed(task: Task, inputs: torch.Tensor, position: int) -> list[torch.Tensor]:
    """`inputs` with every other token at `position`; for inputs that are no tokens, other rows' values."""
    results = []
    for shift in range(1, min(task.d_vocab if inputs.ndim == 2 else 4, 8)):
        other = inputs.clone()
        if inputs.ndim == 2:
            other[:, position] = (inputs[:, position] + shift) % task.d_vocab
        else:
            other[:, position] = inputs[:, position].roll(shift, 0)
        results.append(other)
    return results


def test_tasks_are_frozen_and_follow_the_protocol(task):
    assert isinstance(task, Task)
    assert TASKS[task.name] is type(task)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(task, dataclasses.fields(task)[0].name, 1)


def test_the_same_generator_state_gives_the_same_batch(task):
    first, again, other = sampled(task), sampled(task), sampled(task, seed=1)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


def test_sampling_leaves_the_global_generator_alone(task):
    before = torch.get_rng_state()
    sampled(task)
    assert torch.equal(torch.get_rng_state(), before)


def test_tokens_are_in_the_vocabulary_and_fit_the_context(task):
    batch = sampled(task, 64)
    assert batch.inputs.shape[:2] == batch.targets.shape
    assert batch.inputs.shape[1] == task.n_ctx
    if batch.inputs.ndim == 2:
        assert batch.inputs.min() >= 0
        assert batch.inputs.max() < task.d_vocab
    assert batch.answers.min() >= 0
    assert batch.answers.max() < task.d_vocab


def test_the_same_positions_are_supervised_in_every_row(task):
    batch = sampled(task, 64)
    supervised = batch.targets != UNSUPERVISED
    assert supervised.any()
    assert (supervised == supervised[0]).all()
    assert torch.equal(supervised[0].nonzero().squeeze(-1), batch.supervised)


def test_targets_equal_the_brute_force_solution(task):
    batch = sampled(task, 64)
    assert torch.equal(task.solve(batch.inputs), batch.targets)


def test_the_dependency_mask_is_causal_where_the_task_is_and_for_supervised_queries(task):
    batch = sampled(task)
    mask = task.dependencies(batch)
    assert mask.shape == (len(batch), task.n_ctx, task.n_ctx)
    assert is_causal(task) == (not mask.triu(1).any())
    assert mask[:, batch.supervised].any(-1).all(), "a supervised position depends on nothing"


def test_only_tokens_in_the_mask_can_change_a_target(task):
    batch = sampled(task)
    mask, targets = task.dependencies(batch), batch.targets
    moved = torch.zeros_like(mask)  # [batch query key]: changing key's token changed query's target
    for position in range(task.n_ctx):
        for inputs in changed(task, batch.inputs, position):
            moved[:, :, position] |= task.solve(inputs) != targets
    assert not (moved & ~mask)[:, batch.supervised].any(), "a target depends on a token outside its mask"
    useless = (mask & ~moved.any(0))[:, batch.supervised]
    assert not useless.any(), "a token in the mask never matters"


@pytest.fixture
def registries():
    """The registries, restored afterwards."""
    load_tasks()
    load_claims()
    tasks, claims = dict(TASKS), dict(CLAIMS)
    yield
    for registry, before in ((TASKS, tasks), (CLAIMS, claims)):
        registry.clear()
        registry.update(before)


def test_a_new_task_is_picked_up_and_refused_twice(registries):
    @dataclass(frozen=True)
    class Copy(Parity):
        name: ClassVar[str] = "copy"

    register(Copy)
    assert task_class("copy") is Copy
    assert load_tasks()["copy"] is Copy
    with pytest.raises(ValueError, match="'copy' is registered twice"):
        register(Copy)


def test_an_unknown_task_lists_the_known():
    with pytest.raises(ValueError, match=r"unknown task 'partiy'; the known tasks are \[.*'parity'"):
        task_class("partiy")


def test_a_new_claim_is_picked_up_and_refused_twice(registries):
    claim = dataclasses.replace(next(iter(CLAIMS.values())), id="nobody2030/fig1")
    register_claim(claim)
    assert find_claims(["nobody2030/fig1"]) == [claim]
    assert claim in find_claims(["all"])
    with pytest.raises(ValueError, match="'nobody2030/fig1' is registered twice"):
        register_claim(claim)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wen2024/fig99", "near it: .*wen2024/fig9"),
        ("kim2024", "near it: kim2024/.*kim2024/thm7"),
        ("nothing of the kind", r"the claims are .*wen2024/fig2, wen2024/fig3a"),
    ],
)
def test_an_unknown_claim_names_what_is_near_or_lists_the_known(name, said):
    with pytest.raises(ValueError, match=f"unknown claim '{name}'; {said}"):
        find_claims(["wen2024/fig2", name])


def test_a_claim_needs_a_proper_id_and_all_presets():
    claim = next(iter(load_claims().values()))
    with pytest.raises(ValueError, match="does not look like"):
        dataclasses.replace(claim, id="Fig 2")
    with pytest.raises(ValueError, match="needs presets for"):
        dataclasses.replace(claim, presets={"smoke": claim.presets["smoke"]})


@pytest.fixture(params=sorted(load_claims()), scope="module")
def claim(request) -> Claim:
    return load_claims()[request.param]


LONG = {
    "bogdan2025/attention-predicts-suppression", "huang2025/thm4.1", "li2024/thm1", "wang2025/fig3-right",
    "wen2024/causal-sparsity", "wen2024/fig1b", "wen2024/fig2", "wen2024/fig4", "wen2024/fig5-size",
}  # fmt: skip
"""Smoke runs that take longest; what they go through, other claims of the paper go through too."""
slow_if_long = pytest.mark.parametrize(
    "claim", slow_but(load_claims().keys() - LONG, sorted(load_claims())), indirect=True, scope="module"
)
ONE_OF_EACH_PAPER = {claim.paper: claim.id for claim in load_claims().values() if claim.id not in LONG}.values()
slow_but_one_of_each_paper = pytest.mark.parametrize(
    "claim", slow_but(ONE_OF_EACH_PAPER, sorted(load_claims())), indirect=True, scope="module"
)


def test_a_claim_says_what_it_tests(claim):
    assert set(claim.presets) == set(claim.scale) == set(PRESETS) == {"smoke", "cpu", "paper"}
    assert len(claim.sentence) > 40
    assert len(claim.method) > 40
    assert len(claim.deviations) > 40
    with pytest.raises(ValueError, match="unknown preset 'huge'; the presets are smoke, cpu, paper"):
        claim.preset("huge")


@pytest.mark.parametrize("preset", PRESETS)
def test_parts_are_declared_before_rows_are_read(claim, preset):
    parts = claim.parts(claim.preset(preset))
    check_parts(claim.id, parts)
    assert 1 <= sum(part.primary for part in parts) <= 5
    assert all(
        part.unit in ("problems", "clusters") or claim.presets["cpu"].seeds >= 5 for part in parts if part.primary
    )
    untested = tuple(untestable(claim.id, part, "nothing was run") for part in parts)
    assert "{" not in filled(claim.finding, untested), "the finding must read truly where nothing was measured"


@slow_but_one_of_each_paper
def test_no_judge_errs_more_often_than_it_says(claim):
    first = next(one for one in load_claims().values() if one.parts is claim.parts)
    if first is not claim:
        pytest.skip(f"the judge of {first.id}; results/severity.json has the error rates of both")
    found = severity(claim, DRAWS)
    assert {row.truth for row in found} == {True, False}, "a world where a part is true, and one where one is false"
    primary = {part.key for part in claim.parts(claim.presets["cpu"]) if part.primary}
    assert primary <= {row.part for row in found if not row.truth}, "a primary part that is false in no world"
    assert [row for row in found if row.above_nominal] == []


@pytest.mark.parametrize("preset", PRESETS)
def test_items_are_plain_unique_and_file_safe(claim, preset):
    try:
        items = claim.items(claim.preset(preset))
    except ValueError as error:
        if "hub" not in str(error):
            raise
        pytest.skip(f"the items are made from data of the hub: {error}")
    names = [item.name for item in items]
    assert len(names) == len({name.lower() for name in names}) > 0
    assert all(len(name) <= 200 for name in names)
    assert all(json.dumps(dict(item.parameters), allow_nan=False) for item in items)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_can_be_planned(claim, preset):
    planned = outline(claim, preset, claim.preset(preset))
    assert planned.kinds <= planned.items
    for item in claim.items(with_known_size(claim.preset(preset))):
        loops = active(item.parameters, claim.loops)
        for place, one in enumerate(loops):
            shorter, longer = (shortened(item.parameters, loops, n) for n in (place, place + 1))
            assert 0 < one.count(shorter) < one.count(longer), f"a rehearsal of {item.name} does not tell {one.unit}"


@pytest.fixture(scope="module")
def smoke_run(claim, tmp_path_factory):
    """The claim at smoke, run once."""
    out = tmp_path_factory.mktemp("claim") / "run"
    return out, smoke_run_of(claim.id, tmp_path_factory, out)


def files(directory) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@slow_if_long
def test_a_smoke_run_leaves_rows_verdicts_and_figures(claim, smoke_run):
    out, record = smoke_run
    table = rows.read(out / "rows.parquet")
    assert len(table) > 0
    assert table["unit"].nunique() >= 2, "nothing is replicated"
    assert read_records(out / "verdicts.json") == [record]
    assert (record.claim, record.preset, record.status) == (claim.id, "smoke", "exploratory")
    verdicts = record.judgement.verdicts
    assert [v.key for v in verdicts] == [part.key for part in claim.parts(claim.presets["smoke"])]
    for verdict in verdicts:
        assert verdict.claim == claim.id
        if verdict.outcome == "not testable here":
            assert (verdict.estimate, verdict.n) == (None, 0)
            assert verdict.note, "why there is no estimate"
        else:
            assert verdict.low <= verdict.estimate <= verdict.high
            assert verdict.n >= 1
    drawn = sorted(p.name for p in (out / "figures").iterdir())
    assert len(drawn) >= 1
    assert all(name.endswith(".png") for name in drawn)  # of the PDFs beside them: tests/interp/core/test_sweep.py
    for path in (out / "figures").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000


@slow_if_long
def test_a_smoke_run_finds_what_it_found_before(claim, smoke_run):
    out, record = smoke_run
    entries = GOLDEN["claims"]
    assert claim.id in entries, (
        f"no golden results yet; look at what it finds, then python -m tests.golden {claim.id}"
    )
    found = summary(rows.read(out / "rows.parquet"), record.judgement.verdicts)
    assert differences(found, entries[claim.id], GOLDEN["processor"]) == []


@slow_if_long
def test_the_verdict_follows_from_the_published_rows_alone(claim, smoke_run):
    out, record = smoke_run
    preset = claim.presets["smoke"]
    table = claim.published(pd.read_parquet(out / "rows.parquet"))
    assert claim.judge(table, preset) == record.judgement
    shuffled = table.sample(frac=1, random_state=0).reset_index(drop=True)
    for found, expected in zip(claim.judge(shuffled, preset).verdicts, record.judgement.verdicts, strict=True):
        assert found.outcome == expected.outcome
        assert found.estimate == (None if expected.estimate is None else pytest.approx(expected.estimate, rel=1e-9))
    assert claim.figures(table).keys() == {p.stem for p in (out / "figures").iterdir()}


@slow_if_long
def test_rows_too_many_for_memory_leave_the_published_rows_though_read_item_by_item(claim, smoke_run, monkeypatch):
    out, _ = smoke_run
    monkeypatch.setattr(sweep, "LARGE", 0)
    by_item = sweep._table(claim, [rows_file(out, item) for item in claim.items(claim.presets["smoke"])])
    whole = claim.published(rows.read(out / "rows.parquet"))
    order = list(rows.COLUMNS)
    pd.testing.assert_frame_equal(*(table.sort_values(order).reset_index(drop=True) for table in (by_item, whole)))


@slow_but_one_of_each_paper
def test_a_lost_item_alone_is_measured_again_and_no_file_changes(claim, smoke_run, monkeypatch):
    out, record = smoke_run
    before, n_items = files(out), len(claim.items(claim.presets["smoke"]))
    lost = min((out / "items").iterdir(), key=lambda item: (read_json(item / "seconds.json"), item.name))
    shutil.rmtree(lost)
    measure, measured, said = interp.core.engine.measure_item, [], []

    def counted(claim_id, item, directory):
        measured.append(item.name)
        return measure(claim_id, item, directory)

    monkeypatch.setattr(interp.core.engine, "measure_item", counted)
    monkeypatch.setattr(interp.figures.style, "save_figures", lambda *_: None)  # drawn from the same rows again
    assert run_claim(claim, "smoke", out, resume=True, workers=1, report=said.append) == record
    assert measured == [lost.name]
    done = [f"{claim.id}: {n_items - 1} of {n_items} items are done already"] if n_items > 1 else []
    assert said[:-1] == done
    timing = f"items/{lost.name}/seconds.json"
    assert {**files(out), timing: b""} == {**before, timing: b""}
