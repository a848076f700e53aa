"""What stands in for what only the hub has? Random layers of the model's shape, and the built-in problems.

A plan fetches nothing, with a hub or without: a model of 72 billion parameters is not loaded to learn what it costs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hf_analysis.models.architectures import find_architecture
from interp.core.problem_runs import LIKE

PROBLEMS = {"openai/gsm8k": 1319, "HuggingFaceH4/MATH-500": 500}
"""Test problems of the datasets that presets name."""
TEXTS = ("data", "prose")
"""Parameters that name a dataset."""
MODELS = ("model", "against")
"""Parameters that may name a model of the hub; toy runs have others of the same names."""


def on_hub(name: Any) -> bool:
    """Whether a parameter names something of the hub: owner/name, and no file or directory of this machine."""
    return isinstance(name, str) and name.count("/") == 1 and " " not in name and not Path(name).exists()


def with_known_size(preset: Any) -> Any:
    """The preset with its number of problems, where it leaves that to a dataset of the hub whose size is known."""
    data = getattr(preset, "data", None)
    if getattr(preset, "limit", 0) is not None or not on_hub(data):
        return preset
    if data not in PROBLEMS:
        raise ValueError(f"how many problems {data} has is not known here; known are {', '.join(PROBLEMS)}")
    return replace(preset, limit=PROBLEMS[data] - preset.first_unit - getattr(preset, "n_selection", 0))


@dataclass(frozen=True)
class StandIn:
    """The parameters of an item that runs here."""

    parameters: Mapping[str, Any]
    replaced: tuple[str, ...]
    """What of the hub they do without."""
    n_layers: int
    """Layers of the model that is stood in for; 0 if there is none."""
    layer: int
    """Parameters of one layer."""
    whole: int
    """Parameters of all its layers, embedding and unembedding."""


def stand_in(parameters: Mapping[str, Any], layers: int) -> StandIn:
    """The parameters with `layers` random layers for each model of the hub and built-in text for each dataset."""
    models = [name for name in MODELS if on_hub(parameters.get(name))]
    texts = [name for name in TEXTS if on_hub(parameters.get(name))]
    found = dict(parameters)
    found |= {name: f"{LIKE}{parameters[name]} layers={layers}" for name in models}
    found |= {name: "builtin" for name in texts}
    sizes = [find_architecture(parameters[name]) for name in models]
    largest = max(sizes, key=lambda one: one.parameters, default=None)
    return StandIn(
        found,
        tuple(parameters[name] for name in (*models, *texts)),
        largest.n_layers if largest else 0,
        largest.layer_parameters if largest else 0,
        largest.parameters if largest else 0,
    )
