"""Does code outside the suite reach the registries, through `register` and through entry points?"""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hf_analysis.text.conditions import CONDITIONS, Passage, find_condition
from hf_analysis.text.conditions import register as register_condition
from hf_analysis.text.scopes import SCOPES, Selection, TokenCounts, find_scope
from interp.core.claim import CLAIMS, Claim, Item, Scale, find_claims, load_claims
from interp.core.claim import register as register_claim
from interp.core.judging import mean_over
from interp.core.parts import Part
from interp.core.sweep import run_claim
from probes import rows
from probes.attention.statistics import STATISTICS, find_metric, load_statistics
from probes.base import plugins
from toy_models.task import TASKS, load_tasks
from toy_models.task import register as register_task

CLAIM = """
import os
from dataclasses import dataclass
from interp import Claim, Item, Part, Scale, mean_over, register_claim
from probes import rows

@dataclass(frozen=True)
class Size:
    seeds: int = 3
    first_unit: int = 0

def measure(item, work):
    return rows.table(run=item.name, condition="cot", unit=item.name, metric="process", value=float(os.getpid()))

part = Part(key="process", name="it has a number", role="paper", primary=True, source="Figure 1",
            quantity="process number", estimate=lambda found, level: mean_over(found, level),
            direction="above", threshold=0.0, why="processes are counted from 1", unit="seeds")

register_claim(Claim(id="outside2026/fig1", sentence="Plug-ins work.", method="m", deviations="d",
                     finding="The number was {process}.",
                     scale=dict.fromkeys(("smoke", "cpu", "paper"), Scale("the paper's own numbers")),
                     presets=dict.fromkeys(("smoke", "cpu", "paper"), Size()),
                     items=lambda preset: [Item(str(seed)) for seed in range(preset.seeds)], measure=measure,
                     summary=lambda table: table["value"], parts=lambda preset: [part], figures=lambda table: {}))
"""
STATISTIC = """
from probes.attention.statistics import register

@register(label="mass outside", reductions=("mean",), high=1.0)
def outside_mass(sink_mass):
    return 1 - sink_mass
"""
SCOPE = """
from hf_analysis import Selection, register_scope

@register_scope("outside_last", label="the last token")
def last(text):
    return Selection(range(text.n - 1, text.n))
"""
TASK_AND_CONDITION = '''
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from hf_analysis import Passage, register_condition
from toy_models import register_task
from toy_models.task import load_tasks

@register_condition
def outside_condition(problem, context):
    return Passage(problem.question, " ?")

@register_task
@dataclass(frozen=True)
class Outside:
    """A task from outside."""

    name: ClassVar[str] = "outside"

assert "outside" in load_tasks()  # a module that asks for the registry while it is imported
with (Path(__file__).parent / "imports.log").open("a") as log:
    log.write("imported\\n")
'''


@pytest.fixture
def untouched(monkeypatch):
    """The registries and modules as they were, once the test is over."""
    load_tasks()
    load_claims()
    load_statistics()
    registries: list[dict] = [TASKS, CONDITIONS, SCOPES, CLAIMS, STATISTICS, plugins._FOUND]
    for registry in registries:
        for name, value in list(registry.items()):  # so that monkeypatch restores what the test replaces
            monkeypatch.setitem(registry, name, value)
    known = [(registry, set(registry)) for registry in [*registries, sys.modules]]
    yield
    for registry, names in known:
        for name in set(registry) - names:
            if registry is not sys.modules or name.startswith("outside_"):
                del registry[name]


@pytest.fixture
def install(untouched, tmp_path, monkeypatch):
    """Installs a distribution `outside` with the given modules, each an entry point of its own name."""

    def install(**modules: str) -> Path:
        site = tmp_path / "site"
        information = site / "outside-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
        names = "".join(f"{name} = {name}\n" for name in modules)
        (information / "entry_points.txt").write_text(f"[cotlens.plugins]\n{names}")
        for name, source in modules.items():
            (site / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(str(site))
        return site

    return install


def test_an_installed_distribution_adds_a_task_a_condition_and_a_claim(install):
    site = install(outside_claim=CLAIM, outside_rest=TASK_AND_CONDITION)
    assert load_tasks()["outside"].__module__ == "outside_rest"
    assert find_condition("outside_condition").__module__ == "outside_rest"
    (claim,) = find_claims(["outside2026/fig1"])
    assert claim.sentence == "Plug-ins work."
    for load in (load_tasks, load_claims, plugins.load_plugins):
        load()
    assert (site / "imports.log").read_text() == "imported\n", "an entry point is imported once"


def test_a_statistic_is_found_by_an_entry_point_alone(install):
    install(outside_statistic=STATISTIC)
    assert find_metric("outside_mass_mean").label == "mean of the mass outside"
    with pytest.raises(ValueError, match=r"unknown metric 'nothing'.*outside_mass_mean"):
        find_metric("nothing")


def test_a_scope_is_found_by_an_entry_point_alone(install):
    install(outside_scope=SCOPE)
    assert find_scope("outside_last").selection(TokenCounts(9, 4)) == Selection(range(8, 9))
    with pytest.raises(ValueError, match=r"unknown scope 'nowhere'.*outside_last"):
        find_scope("nowhere")


def test_a_condition_is_found_by_an_entry_point_alone(install):
    install(outside_rest=TASK_AND_CONDITION)
    assert find_condition("outside_condition").__module__ == "outside_rest"
    with pytest.raises(ValueError, match=r"unknown condition 'nobody'.*outside_condition"):
        find_condition("nobody")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import nothing_of_this_name\n", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        (
            CLAIM.replace("from interp import", "from interp.claim import"),
            "ImportError: interp.claim is now interp.core",
        ),
        (CLAIM + CLAIM, "ValueError: claim 'outside2026/fig1' is registered twice"),
    ],
)
def test_a_plugin_that_fails_is_named_with_its_error_every_time(install, source, told):
    install(outside_broken=source)
    for load in (load_tasks, load_claims, lambda: find_condition("nobody")):
        with pytest.raises(ValueError, match="the plug-in 'outside_broken'") as refusal:
            load()
        assert told in str(refusal.value)
        assert "repair it or uninstall outside" in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_the_command_line_lists_a_plugins_claim_without_torch(install):
    site = install(outside_claim=CLAIM)
    code = "import sys; from interp.cli import main; main(['claims', 'list']); assert 'torch' not in sys.modules"
    path = {"PYTHONPATH": f"{site}:{Path(__file__).parents[1]}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 0, done.stderr
    assert "outside2026/fig1" in done.stdout
    assert "wen2024/fig2" in done.stdout


def test_a_plugin_for_an_older_suite_is_one_line_that_names_it_and_the_new_place(install):
    site = install(outside_old="from interp.claim import Claim, Item, register\n")
    path = {"PYTHONPATH": f"{site}:{Path(__file__).parents[1]}"}
    command = [sys.executable, "-m", "interp.cli", "claims", "list"]
    done = subprocess.run(command, capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "cotlens: the plug-in 'outside_old' (outside_old, installed by outside) cannot be imported: ImportError: "
        "interp.claim is now interp.core.claim; write: from interp import Claim, Item, Scale, World, find_claims, "
        "register_claim; repair it or uninstall outside\n"
    )


def test_a_cell_that_is_run_again_replaces_what_it_registered(untouched):
    def define(module: str):
        def outside_condition(problem, context):
            return Passage(problem.question, " ?")

        outside_condition.__module__ = module
        return outside_condition

    register_condition(define("__main__"))
    again = register_condition(define("__main__"))
    assert find_condition("outside_condition") is again
    with pytest.raises(ValueError, match="already registered"):
        register_condition(define("somewhere_else"))

    def task(module: str) -> type:
        return type("Outside", (), {"name": "outside", "__module__": module})

    register_task(task("__main__"))
    second = register_task(task("__main__"))
    assert load_tasks()["outside"] is second
    with pytest.raises(ValueError, match="registered twice"):
        register_task(task("somewhere_else"))


@dataclasses.dataclass(frozen=True)
class Size:
    seeds: int = 3
    first_unit: int = 0


def user_claim(measure) -> Claim:
    part = Part(
        key="seed", name="it is counted", role="paper", primary=True, source="a cell", quantity="seed",
        estimate=mean_over, direction="above", threshold=-5.0, why="seeds are counted from 0", unit="seeds",
    )  # fmt: skip
    return Claim(
        id="notebook2026/fig1", sentence="s", method="m", deviations="d", finding="{seed}",
        scale=dict.fromkeys(("smoke", "cpu", "paper"), Scale("the paper's own numbers")),
        presets=dict.fromkeys(("smoke", "cpu", "paper"), Size()),
        items=lambda preset: [Item(str(seed), {"seed": seed}) for seed in range(preset.seeds)],
        measure=measure, summary=lambda table: table["value"], parts=lambda preset: [part],
        figures=lambda table: {},
    )  # fmt: skip


def test_a_claim_of_a_notebook_runs_with_one_worker_and_says_why_not_with_more(untouched, tmp_path):
    def measure(item: Item, work: Path):
        seed = item.parameters["seed"]
        return rows.table(run=item.name, condition="cot", unit=str(seed), metric="seed", value=float(seed))

    measure.__module__ = "__main__"
    register_claim(user_claim(lambda item, work: pytest.fail("the claim of the first run of the cell was used")))
    CLAIMS["notebook2026/fig1"].measure.__module__ = "__main__"
    CLAIMS["notebook2026/fig1"].measure.__qualname__ = measure.__qualname__
    claim = register_claim(user_claim(measure))
    judgement = run_claim(claim, "smoke", tmp_path / "one", workers=1).judgement
    (verdict,) = judgement.verdicts
    assert verdict.estimate == 1.0
    assert verdict.outcome == "supported"
    assert judgement.conclusion == "reproduced"
    assert judgement.finding == "1 [-1.48, 3.48]"
    with pytest.raises(ValueError, match=r"notebook2026/fig1 is registered in the calling.*use one worker"):
        run_claim(claim, "smoke", tmp_path / "two", workers=2)
    run_claim(claim, "smoke", tmp_path / "two", workers=1, resume=True)  # nothing is spoiled


def test_a_claim_of_an_entry_point_runs_in_worker_processes(install, tmp_path):
    install(outside_claim=CLAIM)
    (claim,) = find_claims(["outside2026/fig1"])
    run_claim(claim, "smoke", tmp_path / "r", workers=2)
    processes = set(rows.read(tmp_path / "r" / "rows.parquet")["value"])
    assert os.getpid() not in processes
