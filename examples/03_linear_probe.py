"""What is decodable where? A linear probe means little by itself, so it stands beside its controls."""

import numpy as np

from probes import linear_probe
from toy_models import DecoderConfig, Parity, TrainConfig, hooked_decoder, train

task, config = Parity(n=12, k=2), DecoderConfig()
result = train(task, config, TrainConfig(batch_size=128, budget=150_000, n_validation=512, n_test=512))
fresh = hooked_decoder(config, task.d_vocab, task.n_ctx, seed=1)  # the same architecture, untrained
inputs, last = result.test.inputs, int(result.test.supervised[-1])
labels = result.test.answers[:, -1].numpy()  # the parity, which the last step computes


def activations(model, point: str) -> np.ndarray:
    """What the model holds at one hook point when it writes the answer."""
    _, cache = model.run_with_cache(inputs, names_filter=point)
    return cache[point][:, last].numpy()


types = inputs[:, :3].numpy() @ np.array([4, 2, 1])  # what the control task labels at random: the first three bits
for point in ("blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"):
    features, untrained = activations(result.model, point), activations(fresh, point)
    probe = linear_probe(features, untrained, labels, types, np.arange(len(labels)), np.random.default_rng(0))
    print(
        f"{point}: {probe.accuracy:.2f} [{probe.low:.2f}, {probe.high:.2f}]; control task {probe.control:.2f}, "
        f"untrained {probe.untrained:.2f}, shuffled labels {probe.shuffled:.2f}"
    )
