"""How does a toy model get into a file and out of it? Its trained parameters by name, whatever the model is.

What a model freezes (a random embedding, W_V) is not kept: it is drawn again by the seed that drew it.
"""

import hashlib

import torch

from probes.hooked.points import Hooked

UNSHAPED = (
    *("n_heads", "d_head", "act_fn", "normalization_type", "eps", "final_rms", "positional_embedding_type"),
    *("attention_dir", "attn_scale", "attn_scores_soft_cap", "output_logits_soft_cap"),
)
"""What of a model's `cfg` decides its output and does not always show in the shapes of its weights."""


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The model's parameters by their state-dict name, a tied one once, under its first name."""
    remaining = {parameter.data_ptr() for parameter in model.parameters()}
    unique = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() in remaining:
            remaining.remove(tensor.data_ptr())
            unique[name] = tensor.detach()
    return unique


def load_weights(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Copies `tensors`, as `weights` returned them, into `model`, which is then in eval mode.

    Names and shapes must agree: `model` is built as that one was.
    """
    expected = weights(model)
    if expected.keys() != tensors.keys():
        raise ValueError(
            f"these weights belong to another model: missing {sorted(expected.keys() - tensors.keys())[:3]}, "
            f"unexpected {sorted(tensors.keys() - expected.keys())[:3]}"
        )
    for name, tensor in expected.items():
        if tensor.shape != tensors[name].shape:
            raise ValueError(
                f"weight {name} has shape {tuple(tensors[name].shape)}, the model needs {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])
    model.eval()


def digest(model: torch.nn.Module) -> str:
    """A fingerprint of a model's shapes and of what training leaves as it is: 16 hex digits.

    Two models with the same digest and the same `architecture` differ in trained weights alone, which a checkpoint
    holds.
    """
    trained = {parameter.data_ptr() for parameter in model.parameters()}  # a tied one has two names
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        if tensor.data_ptr() not in trained:
            as_bytes = tensor.detach().cpu().reshape(-1).view(torch.uint8)  # NumPy has no bfloat16
            found.update(as_bytes.numpy().tobytes())
    return found.hexdigest()[:16]


def architecture(model: Hooked) -> dict[str, str | int | float | None]:
    """The settings `UNSHAPED`, as far as the model's `cfg` has them: a checkpoint must agree with them."""
    return {name: getattr(model.cfg, name) for name in UNSHAPED if hasattr(model.cfg, name)}
