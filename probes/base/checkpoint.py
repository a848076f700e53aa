"""How is a run's state kept? One safetensors file whose header carries the JSON part, replaced atomically.

One file and one rename: a kill leaves the previous checkpoint or the new one, never half of either. It lives in
the lowest layer because toy decoders and adapters of pretrained models are both trained, and neither knows the other.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file

from probes.base.atomic import write_file
from probes.base.identity import require_same as require_same  # whoever loads a checkpoint asks it


def save(path: Path, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    """Writes tensors and JSON state to `path`, atomically."""
    text = json.dumps(state, allow_nan=False)
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    metadata = {"state": f"{_checksum(contiguous, text)} {text}"}  # one entry: safetensors does not order them
    write_file(path, lambda temporary: save_file(contiguous, temporary, metadata=metadata))


def load(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors and the JSON state at `path`; a ValueError names the file if it is damaged."""
    try:
        content = path.read_bytes()  # one reading: safetensors' own reader opens the path more than once
        tensors = load_tensors(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        checksum, text = header["__metadata__"]["state"].split(" ", 1)
        if _checksum(tensors, text) != checksum:
            raise ValueError("its checksum is wrong")
        state = json.loads(text)
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError) as error:
        raise ValueError(f"checkpoint {path} is damaged or not a checkpoint: {error}") from error
    if not isinstance(state, dict):
        raise ValueError(f"checkpoint {path} is damaged: its state is not a JSON object")
    return tensors, state


def adam_tensors(optimiser: torch.optim.Adam) -> dict[str, torch.Tensor]:
    """The state of every parameter as tensors to save; none before the first step."""
    states = optimiser.state_dict()["state"].items()
    return {f"adam.{index}.{name}": value for index, state in states for name, value in state.items()}


def restore_adam(optimiser: torch.optim.Adam, tensors: dict[str, torch.Tensor], started: bool) -> None:
    """Gives `optimiser` the state in `tensors`; a KeyError if a run that has `started` lacks part of it."""
    states: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, index, key = name.split(".")
            states.setdefault(int(index), {})[key] = tensor
    expected = sum(len(group["params"]) for group in optimiser.param_groups) if started else 0
    if len(states) != expected or any(s.keys() != {"step", "exp_avg", "exp_avg_sq"} for s in states.values()):
        raise KeyError(f"Adam's state of {len(states)} parameters instead of {expected}, or part of one")
    optimiser.load_state_dict({**optimiser.state_dict(), "state": states})


def _checksum(tensors: dict[str, torch.Tensor], text: str) -> str:
    """Notices a flipped bit, which safetensors does not."""
    value = zlib.crc32(text.encode())
    for name in sorted(tensors):
        value = zlib.crc32(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode(), value)
        value = zlib.crc32(tensors[name].cpu().reshape(-1).view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
