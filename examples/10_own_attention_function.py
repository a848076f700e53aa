"""Get between a pretrained model and its attention: look at every call, or return something else."""

import torch

from hf_analysis import intercepting, load_model

loaded = load_model("builtin")
tokens = torch.tensor([loaded.encode("The capital of France is")])
with torch.inference_mode():
    intact = loaded.model(tokens).logits[0, -1].log_softmax(-1)


def without_layer(number: int):
    """A handler that lets every layer attend as it does, but for one, whose attention says nothing."""
    return lambda call: torch.zeros_like(call.output()) if call.layer == number else call.output()


for layer in (0, loaded.n_layers // 2, loaded.n_layers - 1):
    with torch.inference_mode(), intercepting(loaded.model, without_layer(layer)):
        changed = loaded.model(tokens).logits[0, -1].log_softmax(-1)
    divergence = (intact.exp() * (intact - changed)).sum().item()
    print(f"without the attention of layer {layer}: KL {divergence:.3f} nats at the last token")
