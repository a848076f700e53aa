"""Where do random numbers come from? One rule: a seed and a purpose give a stream.

The purpose is words, such as "training data" or "initial weights", and the stream starts from the SHA-256 digest of
both. So two purposes of one seed are independent, whichever is drawn from first, and in whichever process; and a new
purpose changes no other. New commands and claims draw so, as `cotlens probe` does. Training and the claims that were
recorded before this rule keep the streams they were recorded with (`training_run.stream`) until they
are run again.
"""

import hashlib

import numpy as np
import torch


def torch_stream(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """The torch generator of `seed` for `purpose`; the numbers depend on the kind of device, as torch's do."""
    return torch.Generator(device).manual_seed(int.from_bytes(_digest(seed, purpose)[:8], "little") >> 1)  # 63 bits


def numpy_stream(seed: int, purpose: str) -> np.random.Generator:
    """The NumPy generator (PCG64) of `seed` for `purpose`."""
    return np.random.default_rng(int.from_bytes(_digest(seed, purpose), "little"))


def _digest(seed: int, purpose: str) -> bytes:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"a stream needs a seed of 0, 1, 2, ..., got {seed!r}")
    if not purpose.strip():
        raise ValueError(f"a stream needs a purpose in words, such as 'training data', got {purpose!r}")
    return hashlib.sha256(f"{seed} {purpose}".encode()).digest()
