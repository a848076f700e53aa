"""Is every training loop placed on a device? No tensor in them is made without saying where, or from what."""

import ast
from pathlib import Path

import pytest

import toy_models

ROOT = Path(toy_models.__file__).parent
LOOPS = [
    "engine/training.py", "engine/loop_run.py", "lego/training.py", "lego/generation.py", "lego/theory_training.py",
    "kfold/hop_training.py", "kfold/curricula.py", "incontext/training.py", "incontext/exam.py",
    "parity/three_steps.py", "parity/theory_tables.py", "tree_parity/training.py", "tree_parity/gradient.py",
    "tree_parity/filter.py", "tree_parity/forest.py",
]  # fmt: skip
FACTORIES = {"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros"}
ON_THE_CPU = {
    "torch.tensor(hops)",  # indexed by numbers drawn on the CPU, then moved
    "torch.tensor([task.children for task in tasks])",  # `Forest.to` moves it
    "torch.arange(2 ** d)",  # every input, packed; `Sample.to` moves it
    "torch.arange(d)",
    "torch.arange(8)",
    "torch.full((m,), 0.5 / m)",  # initial weights are drawn on the CPU
    "torch.full((m,), -0.5 / m)",
    "torch.empty(len(generators), n_bytes, d, dtype=torch.uint8)",  # filled by a generator; `Sample.to` moves it
}


def unplaced(source: str) -> list[str]:
    """Calls of tensor factories that neither name a device nor draw from a generator, which is on the CPU."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        called = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
        named = {keyword.arg for keyword in node.keywords}
        if called and node.func.attr in FACTORIES and not named & {"device", "generator"}:
            found.append(ast.unparse(node))
    return found


def test_the_check_notices_a_tensor_without_a_place():
    assert unplaced("x = torch.zeros(3) + torch.ones(3, device=d) + torch.rand(3, generator=g)") == ["torch.zeros(3)"]


@pytest.mark.parametrize("name", LOOPS)
def test_no_tensor_of_a_training_loop_is_made_without_a_place(name):
    assert [call for call in unplaced((ROOT / name).read_text()) if call not in ON_THE_CPU] == []
