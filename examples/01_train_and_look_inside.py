"""Train a toy model with chain of thought, and ask whether each step attends to the secret bit that it needs."""

from probes import dependency_mass, without_self
from toy_models import DecoderConfig, Parity, TrainConfig, attention_patterns, train

task = Parity(n=12, k=2)  # two secret bits of twelve; the chain writes a running parity after each
result = train(task, DecoderConfig(), TrainConfig(batch_size=128, budget=150_000, n_validation=512, n_test=512))
print(f"{result.samples:,} samples, test accuracy {result.test_accuracy:.3f}")

(pattern,) = attention_patterns(result.model, result.test.inputs)  # one layer: [batch, head, query, key]
needed = without_self(task.dependencies(result.test))  # [batch, query, key]: the bit that the step has to fetch
mass = dependency_mass(pattern, needed)[:, :, result.test.supervised].mean((0, 1))
for step, (query, value) in enumerate(zip(result.test.supervised.tolist(), mass.tolist()), start=1):
    print(f"step {step}: {value:.3f} of its attention on its secret bit; uniform attention has {1 / (query + 1):.3f}")
