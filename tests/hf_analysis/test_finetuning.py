"""Fine-tuning: what is supervised, what is counted, what stays frozen, and resume after any kind of death."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from hf_analysis.finetuning import (
    FinetuneConfig,
    Finetuner,
    adapters,
    add_adapters,
    continuation_losses,
    finetune,
    history_rows,
    loss_rows,
)
from hf_analysis.measurement.measure import measure
from hf_analysis.models.loading import LoadedModel, tiny_twin
from hf_analysis.text.conditions import Context, find_condition, tokenise
from hf_analysis.text.problems import Problem, load_problems
from hf_analysis.training_text import prose_passages, training_problems
from probes.base import checkpoint
from probes.rows import with_settings
from tests.hf_analysis.tiny_models import build

CONFIG = FinetuneConfig(tokens=900, tokens_per_step=128, lr=3e-3, rank=4)
TOKENS = torch.arange(1, 41)[None]


@pytest.fixture
def fresh(tokenizer):
    """A tiny model of its own for every call: training puts adapters on it."""
    return lambda name="llama": LoadedModel(f"tiny-{name}", build(name), tokenizer)


def passages(loaded: LoadedModel, problems: list[Problem], condition: str) -> list[tuple[list[int], int]]:
    context = Context(problems, 0, loaded)
    return [tokenise(loaded, find_condition(condition)(problem, context)) for problem in problems]


def logits(loaded: LoadedModel) -> torch.Tensor:
    with torch.no_grad():
        return loaded.model(TOKENS).logits


def weights(loaded: LoadedModel) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in adapters(loaded).items()}


def assert_same_bits(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def slow_losses(loaded: LoadedModel, ids: list[int], n_question: int) -> torch.Tensor:
    """From all logits, token by token."""
    everything = loaded.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return torch.stack([-everything[i - 1, ids[i]] for i in range(n_question, len(ids))])


def test_the_loss_is_that_of_the_continuation_alone(architecture, fresh, problems):
    loaded = fresh(architecture)
    for ids, n_question in passages(loaded, problems, "cot"):
        with torch.no_grad():
            found = continuation_losses(loaded, ids, n_question)
            torch.testing.assert_close(found, slow_losses(loaded, ids, n_question), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="at least one token before"):
        continuation_losses(loaded, [1, 2], 0)


def test_held_out_losses_are_means_by_problem_and_text(fresh, problems):
    loaded = fresh()
    table = loss_rows(loaded, problems, ["cot", "no_cot"], run="r")
    assert set(table["metric"]) == {"answer_loss"}
    for condition in ("cot", "no_cot"):
        mine = table[table["condition"] == condition]
        assert list(mine["unit"]) == [p.id for p in problems]
        for (ids, n_question), value, n in zip(
            passages(loaded, problems, condition), mine["value"], mine["n_tokens"], strict=True
        ):
            with torch.no_grad():
                assert value == pytest.approx(slow_losses(loaded, ids, n_question).mean().item(), rel=1e-5)
            assert n == len(ids) - n_question


def test_fresh_adapters_change_nothing_and_alone_are_trained(architecture, fresh):
    base, loaded = fresh(architecture), fresh(architecture)
    before = torch.get_rng_state()
    add_adapters(loaded, rank=4, seed=0)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    assert torch.equal(logits(loaded), logits(base))
    assert all(".lora_" in name for name in adapters(loaded))
    linear = [
        name
        for name, module in base.model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D") and name not in ("lm_head", "embed_out")
    ]
    assert len(adapters(loaded)) == 2 * len(linear)
    assert not loaded.model.training


def test_training_lowers_the_loss_and_leaves_the_base_weights_alone(fresh, problems):
    base, loaded = fresh(), fresh()
    start = loss_rows(base, problems, ["cot"], run="r")["value"].mean()
    result = finetune(loaded, problems, "cot", replace(CONFIG, tokens=3000, lr=1e-2))
    assert loss_rows(result.model, problems, ["cot"], run="r")["value"].mean() < 0.9 * start
    assert result.history[0].loss > result.history[-1].loss
    frozen = {
        name.replace(".base_layer", ""): weight
        for name, weight in loaded.model.named_parameters()
        if ".lora_" not in name
    }
    assert_same_bits(frozen, dict(base.model.named_parameters()))


@pytest.mark.parametrize("name", ["llama", "qwen2", "gpt2"])
def test_merged_and_unmerged_adapters_give_the_same_logits_and_entropies(name, fresh, problems, tmp_path):
    from peft.tuners.lora import LoraLayer

    loaded = fresh(name)
    base = logits(loaded)
    result = finetune(loaded, problems, "cot", CONFIG)
    apart = logits(result.model)
    assert (apart - base).abs().max() > 0.05, "training must have changed something"
    table = measure(result.model, problems[:2], ["cot", "no_cot"], tmp_path / "apart", run="r")
    for module in result.model.model.modules():
        if isinstance(module, LoraLayer):
            module.merge()
    torch.testing.assert_close(logits(result.model), apart, atol=1e-4, rtol=1e-4)
    merged = LoadedModel(loaded.name, loaded.model, loaded.tokenizer)
    again = measure(merged, problems[:2], ["cot", "no_cot"], tmp_path / "merged", run="r")
    pd.testing.assert_frame_equal(table, again, atol=1e-4, rtol=0)


def test_a_tuned_model_is_not_taken_for_its_base(fresh, problems, tmp_path):
    measure(fresh(), problems[:2], ["cot"], tmp_path / "out")
    result = finetune(fresh(), problems, "cot", CONFIG)
    with pytest.raises(ValueError, match=r"holds another run \(weights: "):
        measure(result.model, problems[:2], ["cot"], tmp_path / "out", resume=True)


def test_one_step_is_adam_on_the_mean_loss_over_supervised_tokens(fresh, problems):
    tuner, slow = Finetuner(fresh(), problems, "cot", CONFIG), fresh()
    add_adapters(slow, CONFIG.rank, CONFIG.seed)
    taken = []
    original = tuner._next
    tuner._next = lambda: taken.append(original()) or taken[-1]
    step = tuner.step()
    losses = torch.cat([slow_losses(slow, *passage) for passage in passages(slow, taken, "cot")])
    assert step.loss == pytest.approx(losses.mean().item(), rel=1e-5)
    assert (step.passages, step.supervised) == (len(taken), len(losses))
    losses.mean().backward()
    optimiser = torch.optim.Adam(adapters(slow).values(), lr=CONFIG.lr)
    torch.nn.utils.clip_grad_norm_(adapters(slow).values(), CONFIG.max_norm)
    expected = {n: torch.zeros_like(w) if w.grad is None else w.grad.clone() for n, w in adapters(slow).items()}
    optimiser.step()
    for name, weight in adapters(slow).items():
        gradient = tuner.adapters[name].grad
        assert gradient is not None
        torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-3)
        if "lora_B" in name:  # the gradient of A is zero at first, and Adam divides rounding by rounding
            torch.testing.assert_close(tuner.adapters[name], weight, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("tokens_per_step", [1, 100, 5000])
def test_both_arms_forward_equally_many_tokens_up_to_one_passage(tokens_per_step, fresh, problems):
    config = replace(CONFIG, tokens_per_step=tokens_per_step)
    totals, loaded = {}, fresh()
    for condition in ("cot", "no_cot"):
        history = finetune(fresh(), problems, condition, config).history
        texts = passages(loaded, problems, condition)
        longest = max(len(ids) for ids, _ in texts)
        totals[condition] = sum(step.forwarded for step in history)
        assert config.tokens <= totals[condition] < config.tokens + longest
        if tokens_per_step == 100:
            ends = [sum(step.forwarded for step in history[: i + 1]) for i in range(len(history))]
            assert all(100 * (end // 100) <= end < 100 * (end // 100) + longest for end in ends)
            assert len(history) == pytest.approx(config.tokens / 100, abs=1)
        whole, rest = divmod(sum(step.passages for step in history), len(problems))
        assert sum(step.supervised for step in history) >= whole * sum(len(ids) - n for ids, n in texts)
        assert totals[condition] >= whole * sum(len(ids) for ids, _ in texts)
        assert rest or totals[condition] == whole * sum(len(ids) for ids, _ in texts)


def test_every_epoch_has_every_problem_once_in_an_order_of_its_own(fresh, problems):
    tuner = Finetuner(fresh(), problems, "cot", CONFIG)
    epochs = [[tuner._next().id for _ in problems] for _ in range(4)]
    assert all(sorted(epoch) == [p.id for p in problems] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    other = Finetuner(fresh(), problems, "cot", replace(CONFIG, seed=1))
    assert [[other._next().id for _ in problems] for _ in range(4)] != epochs


def test_the_seed_decides_everything(fresh, problems):
    first, again, other = (
        weights(finetune(fresh(), problems, "cot", replace(CONFIG, seed=seed)).model) for seed in (0, 0, 1)
    )
    assert_same_bits(first, again)
    assert not any(torch.equal(first[name], other[name]) for name in first)


class Interruption(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 2, 5])
def test_interrupted_and_resumed_is_bit_identical(stop_at, fresh, problems, tmp_path):
    whole = finetune(fresh(), problems, "cot", CONFIG, tmp_path / "whole")
    calls = []

    def interrupt(step):
        calls.append(step)
        if len(calls) == stop_at:
            raise Interruption

    path = tmp_path / "cut"
    with pytest.raises(Interruption):
        finetune(fresh(), problems, "cot", CONFIG, path, checkpoint_seconds=0.0, on_step=interrupt)
    repeated = []
    resumed = finetune(fresh(), problems, "cot", CONFIG, path, on_step=repeated.append)
    assert len(repeated) == len(whole.history) - (stop_at - 1), "the interrupted step is taken again, no other"
    assert resumed.history == whole.history
    assert_same_bits(weights(resumed.model), weights(whole.model))
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert finetune(fresh(), problems, "cot", CONFIG, path, on_step=pytest.fail).history == whole.history


CONSTANT = replace(CONFIG, decay=False, whole=True)


def test_with_a_constant_rate_one_run_passes_through_every_shorter_one(fresh, problems, tmp_path):
    """The oracle of the doses: a run that ends there."""
    tuner = Finetuner(fresh(), problems, "cot", CONSTANT)
    for dose in (256, 512, CONSTANT.tokens):
        passing = tuner.train(dose, tmp_path / "state")
        ended = finetune(fresh(), problems, "cot", replace(CONSTANT, tokens=dose))
        assert passing.history == ended.history
        assert_same_bits(weights(passing.model), weights(ended.model))
        again = Finetuner(fresh(), problems, "cot", CONSTANT)
        again.restore(tmp_path / "state")
        assert_same_bits(weights(again.train(dose).model), weights(ended.model))
        with pytest.raises(ValueError, match="asked for the model after 100; remove its checkpoint"):
            tuner.train(100)
    decaying = finetune(fresh(), problems, "cot", replace(CONSTANT, decay=True)).model
    assert not torch.equal(next(iter(weights(decaying).values())), next(iter(weights(passing.model).values())))


def test_the_whole_text_is_supervised_but_for_its_first_token(fresh, problems):
    tuner, slow = Finetuner(fresh(), problems, "no_cot", CONSTANT), fresh()
    taken = []
    original = tuner._next
    tuner._next = lambda: taken.append(original()) or taken[-1]
    step = tuner.step()
    losses = torch.cat([slow_losses(slow, ids, 1) for ids, _ in passages(slow, taken, "no_cot")])
    assert step.loss == pytest.approx(losses.mean().item(), rel=1e-5)
    assert step.supervised == step.forwarded - step.passages == len(losses)


def test_prose_is_cut_into_passages_and_its_end_is_held_out(tmp_path, fresh):
    training, held_out = prose_passages()
    assert 0.1 < len(held_out) / (len(training) + len(held_out)) < 0.2
    whole = " ".join(f"{p.question} {p.solution}" for p in (*training, *held_out))
    from hf_analysis.text.prose import story

    assert story().startswith(whole), "nothing is lost but the last sentences"
    assert len(whole) > 0.98 * len(story())
    assert all(p.question and p.solution for p in (*training, *held_out))
    lengths = [len(f"{p.question} {p.solution}".split()) for p in training]
    assert min(lengths) >= 100
    assert len({p.id for p in (*training, *held_out)}) == len(training) + len(held_out)
    assert finetune(fresh(), training[:3], "cot", replace(CONSTANT, tokens=200)).history


def test_prose_of_a_directory_is_read_and_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "texts"
    folder.mkdir()
    line = " ".join(f"Sentence {i} has quite a few words to read." for i in range(30))
    (folder / "train.txt").write_text(f"= Heading =\n\n{line}\n{line}\n")
    training, held_out = prose_passages(str(folder))
    assert training[0].question == "Sentence 0 has quite a few words to read."
    assert not any("Heading" in p.question + p.solution for p in (*training, *held_out))
    with pytest.raises(ValueError, match="neither a directory of text files"):
        prose_passages(str(tmp_path / "nothing"))


def test_killed_and_resumed_is_bit_identical(fresh, problems, tmp_path):
    model = fresh()
    model.model.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    script = f"""
import os, signal
from pathlib import Path
import torch
from hf_analysis.finetuning import FinetuneConfig, finetune
from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import Problem
torch.set_num_threads({torch.get_num_threads()})
problems = [Problem(*p) for p in {[(p.id, p.question, p.solution, p.answer) for p in problems]!r}]
steps = []
def die(step):
    steps.append(step)
    if len(steps) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
model = load_model({str(tmp_path / "model")!r}, device="cpu")
finetune(model, problems, "no_cot", {CONFIG!r}, Path({str(tmp_path / "cut")!r}), checkpoint_seconds=0.0, on_step=die)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.run([sys.executable, "-c", script], env=environment, check=False, capture_output=True)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    assert len(checkpoint.load(tmp_path / "cut")[1]["history"]) == 3
    resumed = finetune(fresh(), problems, "no_cot", CONFIG, tmp_path / "cut")
    whole = finetune(fresh(), problems, "no_cot", CONFIG, tmp_path / "whole")
    assert_same_bits(weights(resumed.model), weights(whole.model))
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.fixture
def saved(fresh, problems, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    tuner = Finetuner(fresh(), problems, "cot", CONFIG)
    tuner.step()
    tuner.save(path)
    return path


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"config": replace(CONFIG, lr=1e-4)}, "lr: 0.003 there, 0.0001 here"),
        ({"config": replace(CONFIG, seed=1)}, "seed: 0 there, 1 here"),
        ({"condition": "no_cot"}, "condition: 'cot' there, 'no_cot' here"),
        ({"problems": "fewer"}, "data: "),
        ({"loaded": "qwen2"}, "model: "),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(change, named, saved, fresh, problems):
    request = {"loaded": "llama", "problems": problems, "condition": "cot", "config": CONFIG, **change}
    request["loaded"] = fresh(request["loaded"])
    request["problems"] = problems[1:] if request["problems"] == "fewer" else problems
    before = saved.read_bytes()
    with pytest.raises(ValueError, match=f"holds another run.*{named}"):
        finetune(**request, checkpoint_path=saved)
    assert saved.read_bytes() == before


@pytest.mark.parametrize("lost", ["adapter", "adam", "position", "history"])
def test_an_incomplete_checkpoint_is_refused(lost, saved, fresh, problems):
    tensors, state = checkpoint.load(saved)
    for name in [name for name in tensors if name.startswith(f"{lost}.")][:1]:
        del tensors[name]
    state.pop(lost, None)
    checkpoint.save(saved, tensors, state)
    with pytest.raises(ValueError, match="is incomplete"):
        finetune(fresh(), problems, "cot", CONFIG, saved)


def test_a_damaged_checkpoint_is_refused(saved, fresh, problems):
    saved.write_bytes(saved.read_bytes()[:-7])
    with pytest.raises(ValueError, match="damaged"):
        finetune(fresh(), problems, "cot", CONFIG, saved)


def test_no_training_problem_is_held_out():
    held_out = load_problems("builtin", limit=60)
    training = training_problems("builtin", 400, held_out)
    assert not {p.question for p in training} & {p.question for p in held_out}
    assert len(training) > 390
    assert not {p.id for p in training} & {p.id for p in held_out}


def test_held_out_questions_are_removed_whatever_their_spelling(tmp_path):
    path = tmp_path / "data.jsonl"
    asked = ["How many?", "how  MANY? ", "How few?"]
    path.write_text("".join(json.dumps({"question": q, "answer": "#### 1"}) + "\n" for q in asked))
    held_out = [Problem("h", " How many?", "#### 1", "1")]
    assert [p.question for p in training_problems(str(path), None, held_out)] == ["How few?"]
    with pytest.raises(ValueError, match="every problem is held out"):
        training_problems(str(path), 2, held_out)


def test_rows_of_the_history_add_up(fresh, problems):
    history = finetune(fresh(), problems, "no_cot", CONFIG).history
    table = history_rows(history, condition="no_cot", seed=3, run="r")
    assert set(table["unit"]) == {"3"}
    curve = table[table["metric"] == "training_loss"]
    assert list(curve["value"]) == [step.loss for step in history]
    assert curve["n_tokens"].sum() == table[table["metric"] == "supervised_tokens"]["value"].item()
    assert list(curve["update"]) == list(range(1, len(history) + 1))
    assert with_settings(curve)["tokens"].max() == table[table["metric"] == "forwarded_tokens"]["value"].item()


def test_divergence_stops_and_names_the_remedy(fresh, problems):
    loaded = fresh()
    with torch.no_grad():
        loaded.model.get_output_embeddings().weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="diverged; lower lr"):
        finetune(loaded, problems, "cot", CONFIG)


def test_without_peft_the_remedy_is_named(fresh, problems, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"cotlens\[finetune\]"):
        finetune(fresh(), problems, "cot", CONFIG)


@pytest.mark.parametrize(
    ("name", "value"), [("tokens", 0), ("tokens_per_step", 0), ("rank", 0), ("lr", 0.0), ("max_norm", float("nan"))]
)
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        FinetuneConfig(**{name: value})


def test_nothing_to_train_on_is_refused(fresh):
    with pytest.raises(ValueError, match="no problem to train on"):
        finetune(fresh(), [], "cot", CONFIG)


def test_the_tiny_twin_is_tiny_and_reads_the_same_tokens(llama):
    twin = tiny_twin(llama, seed=0)
    assert sum(weight.numel() for weight in twin.model.parameters()) < 50_000
    assert twin.tokenizer is llama.tokenizer
    assert twin.digest == tiny_twin(llama, seed=0).digest != tiny_twin(llama, seed=1).digest
