"""Where does `cotlens entropy` measure? In this process, or in actors of a Ray cluster; the rows are the same."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from hf_analysis.attention.recorder import require_measurable
from hf_analysis.measurement.measure import Measured, Measurer, Progress, collected
from hf_analysis.measurement.request import Request
from hf_analysis.measurement.store import Store
from hf_analysis.measurement.transport import Remote, begun, finished
from hf_analysis.models.baselines import BASELINES
from hf_analysis.models.directories import require_tokenizer
from hf_analysis.models.loading import LoadedModel, load_model, load_tokenizer, require_same_tokenizer
from interp.console import progress
from interp.core.effects import AGAINST
from interp.core.ray_actors import actors
from interp.core.ray_engine import is_share

if TYPE_CHECKING:
    from interp.commands.entropy import Entropy

Measure = Callable[[str, Path], Store]
"""(empty, a baseline's name or AGAINST; directory) -> all problems, measured"""


@contextmanager
def measuring_here(options: "Entropy", request: Request) -> Iterator[Measure]:
    """Measures in this process; the models are loaded, and compared, at once."""
    first = _loaded(options, options.model, options.revision)
    second = None if options.against is None else _loaded(options, options.against, options.against_revision)
    if second is not None:
        require_same_tokenizer(first, second)
        require_measurable(second)

    def measured(which: str, out: Path) -> Store:
        measurer = _measurer(options, request, which, second if which == AGAINST and second else first)
        identity, groups = measurer.begin()
        with _problems_done(measurer.model.name, request) as update:
            measuring = partial(map, measurer.measuring)
            return collected(request, identity, groups, measuring, out, options.resume, update)

    yield measured


@contextmanager
def measuring_on_ray(options: "Entropy", request: Request) -> Iterator[Measure]:
    """Measures by actors; each loads the model itself, then the next one, and this process none."""
    if options.actors < 1 or not is_share(options.actor_gpus):
        raise ValueError(
            f"--actors {options.actors} --actor-gpus {options.actor_gpus:g}: need at least 1 actor, and a part of a "
            "GPU or a whole number of them"
        )
    with actors(options.actors, options.address, n_threads(options), options.actor_gpus) as pool:
        if options.against is not None:
            list(pool.calls(partial(_Tokenizers, options), "compare", [None]))

        def measured(which: str, out: Path) -> Store:
            load = partial(_remote, options, request, which)
            (start,) = pool.calls(load, "begin", [None])

            def results(groups: Sequence[range]) -> Iterator[Iterator[Measured]]:
                return (finished(data, request.problems) for data in pool.calls(load, "measured", groups))

            identity, groups = begun(start)
            with _problems_done(identity["model"], request) as update:
                return collected(request, identity, groups, results, out, options.resume, update)

        yield measured


@contextmanager
def _problems_done(model: str, request: Request) -> Iterator[Progress]:
    with progress(f"measuring {model}", len(request.problems), "problems") as update:
        yield lambda done, total, problem: update(done, problem)


def _remote(options: "Entropy", request: Request, which: str) -> Remote:
    """What an actor holds."""
    torch.set_num_threads(n_threads(options))
    of = (options.against or "", options.against_revision) if which == AGAINST else (options.model, options.revision)
    return Remote(_measurer(options, request, which, _loaded(options, *of)))


class _Tokenizers:
    """What an actor holds before it holds a model: whether two can be compared is known at once."""

    def __init__(self, options: "Entropy") -> None:
        settings = {"trust_remote_code": options.trust_remote_code, "offline": options.offline}
        self.first = load_tokenizer(options.model, revision=options.revision, **settings)
        self.second = load_tokenizer(options.against or "", revision=options.against_revision, **settings)

    def compare(self, _: None) -> bytes:
        require_same_tokenizer(self.first, self.second)
        return b""


def _measurer(options: "Entropy", request: Request, which: str, model: LoadedModel) -> Measurer:
    """What measures the model, one of its baselines, or what it is compared with."""
    if which in BASELINES:
        return Measurer(BASELINES[which](model, options.seed), request, author=model)
    return Measurer(model, request, f"{which}{model.name}")


def n_threads(options: "Entropy") -> int:
    """How many threads compute, which decides the last digits of the rows."""
    return options.threads or (torch.get_num_threads() if options.engine == "local" else 1)


def _loaded(options: "Entropy", name: str, revision: str | None) -> LoadedModel:
    require_tokenizer(name)
    print(f"loading {name}", flush=True)
    return load_model(
        name,
        revision=revision,
        device=options.device,
        dtype=options.dtype,
        trust_remote_code=options.trust_remote_code,
        offline=options.offline,
    )
