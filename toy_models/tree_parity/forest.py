"""Which trees does a seed batch learn, and on which data? One tree of one shape for each seed, as tensors.

Values are +-1 and stand as [seed position sample]: the paper's x_j is the vector of all samples' j-th value. Bits
are kept packed, eight to a byte, and unpacked in chunks: a million samples of 64 bits are 8 MB, not 256.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from toy_models.tree_parity.task import TreeParity

Mask = Literal["position", "level"]
"""What a node sees: every earlier position, or every position of the levels below its own (kim2024, Figure 3)."""

CHUNK_VALUES = 1 << 20
"""Values unpacked at once: 4 MB, and a few times that for what is computed from them (the fastest of 2^18..2^22)."""


@dataclass(frozen=True)
class Forest:
    """Trees of one shape. Keys are the positions 0..d+k-3 that a node can attend to; the root is none."""

    d: int
    k: int
    children: Int[Tensor, "seed node 2"]

    @staticmethod
    def of(tasks: Sequence[TreeParity]) -> "Forest":
        """The trees of tasks that share d and k."""
        shapes = {(task.d, task.k) for task in tasks}
        if len(shapes) != 1:
            raise ValueError(f"a forest has trees of one shape (d, k), got {sorted(shapes)}; make one for each")
        ((d, k),) = shapes
        return Forest(d, k, torch.tensor([task.children for task in tasks]))

    def to(self, device: torch.device) -> "Forest":
        """The same trees on another device."""
        return Forest(self.d, self.k, self.children.to(device))

    @property
    def n_seeds(self) -> int:
        return len(self.children)

    @property
    def n_nodes(self) -> int:
        return self.k - 1

    @property
    def n_keys(self) -> int:
        return self.d + self.k - 2

    @cached_property
    def levels(self) -> tuple[slice, ...]:
        """The nodes of each level, the lowest first."""
        widths = [self.k >> level for level in range(1, self.k.bit_length())]
        starts = [sum(widths[:level]) for level in range(len(widths))]
        return tuple(slice(start, start + width) for start, width in zip(starts, widths))

    def stages(self, mask: Mask) -> tuple[slice, ...]:
        """Nodes that can be generated at once, in order: each alone, or a level together (k - 1 or log2 k)."""
        return self.levels if mask == "level" else tuple(slice(n, n + 1) for n in range(self.n_nodes))

    def visible(self, mask: Mask) -> Bool[Tensor, "node key"]:
        """The keys each node can see: those before the first node of its stage."""
        seen = torch.zeros(self.n_nodes, self.n_keys, dtype=torch.bool, device=self.children.device)
        for stage in self.stages(mask):
            seen[stage, : self.d + stage.start] = True
        return seen

    @cached_property
    def needed(self) -> Bool[Tensor, "seed node key"]:
        """The two children of each node, as a mask."""
        empty = torch.zeros(self.n_seeds, self.n_nodes, self.n_keys, dtype=torch.bool, device=self.children.device)
        return empty.scatter(-1, self.children, True)

    def no_weights(self) -> Float[Tensor, "seed node key"]:
        """The weights before training: zero, so that attention is uniform."""
        return torch.zeros(self.n_seeds, self.n_nodes, self.n_keys, device=self.children.device)

    def random_weights(self, generators: Sequence[torch.Generator]) -> Float[Tensor, "seed node key"]:
        """Weights N(0, 1), one generator for each seed: at zero all nodes of a level are one and the same."""
        shape, device = (self.n_nodes, self.n_keys), self.children.device
        return torch.stack([torch.randn(shape, generator=g) for g in generators]).to(device)

    def grown(self, bits: Float[Tensor, "seed bit sample"]) -> Float[Tensor, "seed pos sample"]:
        """The bits and the true value of every node above them, at positions 0..d+k-2."""
        values = bits.new_empty(self.n_seeds, self.d + self.n_nodes, bits.shape[-1])
        values[:, : self.d] = bits
        for level in self.levels:
            for seed, children in enumerate(self.children[:, level]):
                product = values[seed, children[:, 0]] * values[seed, children[:, 1]]
                values[seed, self.d + level.start : self.d + level.stop] = product
        return values


@dataclass(frozen=True)
class Sample:
    """n random d-bit inputs for each seed, packed."""

    packed: UInt8[Tensor, "seed byte bit"]
    n: int

    @staticmethod
    def draw(d: int, n: int, generators: Sequence[torch.Generator]) -> "Sample":
        """n inputs of d uniform bits from each generator; a larger n begins with the same inputs."""
        n_bytes = -(-n // 8)
        packed = torch.empty(len(generators), n_bytes, d, dtype=torch.uint8)  # once: large samples are gigabytes
        for of_seed, generator in zip(packed, generators):
            of_seed.random_(generator=generator)
        return Sample(packed, n)

    def to(self, device: torch.device) -> "Sample":
        """The same inputs on another device."""
        return Sample(self.packed.to(device), self.n)

    @staticmethod
    def every_input(d: int, n_seeds: int) -> "Sample":
        """All 2^d inputs, the same for each seed: averages over them are expectations."""
        if not 3 <= d <= 24:
            raise ValueError(f"enumerating 2^d inputs needs 3 <= d <= 24, got d={d}; draw a sample instead")
        numbers = torch.arange(2**d).view(-1, 8)
        bits = (numbers[:, :, None] >> torch.arange(d)) & 1
        packed = (bits << torch.arange(8)[:, None]).sum(1).to(torch.uint8)
        return Sample(packed.expand(n_seeds, -1, -1), 2**d)

    def values(self, start: int, stop: int) -> Float[Tensor, "seed bit sample"]:
        """Inputs number start..stop-1 as +-1."""
        first = start // 8
        some = self.packed[:, first : -(-stop // 8)].transpose(1, 2).contiguous()
        bits = (some[..., None] >> torch.arange(8, dtype=torch.uint8, device=some.device)) & 1
        return 1 - 2 * bits.flatten(2)[..., start - 8 * first : stop - 8 * first].float()

    def chunks(self, stops: Sequence[int] = ()) -> Iterator[tuple[int, Float[Tensor, "seed bit sample"]]]:
        """The inputs in parts that fit into memory, each with the number of inputs so far; breaks at `stops`."""
        seeds, _, d = self.packed.shape
        size = max(8, CHUNK_VALUES // (seeds * d) // 8 * 8)
        ends = sorted({*range(size, self.n, size), *(stop for stop in stops if stop < self.n), self.n})
        for start, stop in zip([0, *ends], ends):
            yield stop, self.values(start, stop)
