"""How are activations gathered for many probes? Hook point by hook point, in one buffer that is used again.

A cache of every layer would need layers x inputs x positions x width numbers; here it is one hook point of them, at
the price of one forward for each.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from probes.hooked.points import Hooked

CHUNK = 256
"""Inputs per forward."""


class ActivationStream:
    """Iterates over (name, activations) for each hook point; the array is overwritten by the next one."""

    def __init__(
        self, model: Hooked, inputs: Shaped[Tensor, "input *rest"], names: Sequence[str], chunk: int = CHUNK
    ) -> None:
        unknown = [name for name in names if name not in model.hook_dict]
        if unknown:
            raise ValueError(
                f"the model has no hook point {unknown[0]!r}; it has {', '.join(list(model.hook_dict)[:8])}, ..."
            )
        self.model, self.inputs, self.names, self.chunk = model, inputs, names, chunk
        self._buffer: np.ndarray = np.empty(0, dtype=np.float32)

    def __iter__(self) -> Iterator[tuple[str, Float[np.ndarray, "input pos d"]]]:
        for name in self.names:
            yield name, self._gathered(name)

    @torch.no_grad()
    def _gathered(self, name: str) -> Float[np.ndarray, "input pos d"]:
        done = 0

        def keep(activation: Tensor, hook: object) -> None:
            nonlocal done
            shape = (len(self.inputs), *activation.shape[1:])
            if self._buffer.shape != shape:
                self._buffer = np.empty(0, dtype=np.float32)  # the old one is gone before the new one comes
                self._buffer = np.empty(shape, dtype=np.float32)
            self._buffer[done : done + len(activation)] = activation.float().cpu().numpy()
            done += len(activation)

        for part in self.inputs.split(self.chunk):
            self.model.run_with_hooks(part, fwd_hooks=[(name, keep)])
        return self._buffer
