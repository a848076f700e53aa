"""Is a model trained on what it should be, batch by batch, and does a run go on with the same bits?"""

import pytest
import torch
from torch.nn.functional import cross_entropy

from hf_analysis.scratch.family import held_out_problems, training_problem
from hf_analysis.scratch.pretraining import Pretraining, PretrainingConfig, fresh_model
from hf_analysis.text.conditions import tokenise

SMALL = PretrainingConfig(
    seed=3, d_model=16, n_layers=2, n_heads=2, d_mlp=32, tokens=6_000, passages_per_step=8, lr=2e-2, warmup=2
)
HELD_OUT = held_out_problems(100)


def run(condition: str = "cot_clean", config: PretrainingConfig = SMALL) -> Pretraining:
    return Pretraining(condition, config, HELD_OUT)


def weights(training: Pretraining) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in training.weights.values()])


def test_a_batch_has_the_loss_of_its_texts_one_by_one():
    """Padding on the right changes nothing, and no held-out problem is read."""
    training, taken = run(), {problem.solution for problem in HELD_OUT}
    texts, place = [], 0
    while len(texts) < SMALL.passages_per_step:
        problem = training_problem(SMALL.seed, place)
        place += 1
        if problem.solution not in taken:
            ids, _ = tokenise(training.loaded, training.condition(problem, training.context))
            texts.append([*ids, training.loaded.tokenizer.eos_token_id])
    losses = []
    for ids in texts:
        logits = training.loaded.model(torch.tensor([ids])).logits[0, :-1]
        losses.append(cross_entropy(logits.double(), torch.tensor(ids[1:]), reduction="none"))
    training.step()
    assert training.losses[0] == pytest.approx(torch.cat(losses).mean().item(), abs=1e-5)
    assert training.tokens == sum(map(len, texts))
    assert training.position == place


def test_both_conditions_of_a_seed_begin_with_the_same_weights_and_another_seed_does_not():
    with_cot, without = run(), run("no_cot")
    assert torch.equal(weights(with_cot), weights(without))
    other = fresh_model(PretrainingConfig(**{**vars(SMALL), "seed": 4}))
    assert not torch.equal(weights(with_cot), torch.cat([p.detach().flatten() for p in other.model.parameters()]))


def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_bits(tmp_path):
    whole = run()
    whole.train(SMALL.tokens)
    first, path = run(), tmp_path / "checkpoint.safetensors"
    first.train(3_000, path)
    second = run()
    second.restore(path)
    second.train(SMALL.tokens, path)
    assert torch.equal(weights(whole), weights(second))
    assert whole.losses == second.losses
    assert whole.losses[-1] < whole.losses[0] - 0.5, "it learns"


def test_a_checkpoint_of_another_run_is_refused_in_one_line(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    run().save(path)
    with pytest.raises(ValueError, match="condition"):
        run("no_cot").restore(path)


@pytest.mark.parametrize(("name", "value"), [("tokens", 0), ("d_model", 18), ("lr", float("nan"))])
def test_a_configuration_that_cannot_be_trained_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        PretrainingConfig(**{**vars(SMALL), name: value})
