"""Does a difference between two texts need a trained model? The same difference with the weights in random order."""

from hf_analysis import load_model, permuted, record

with_steps = "Ann has 3 apples and buys 4. She has 3 + 4 = 7 apples. The answer is 7."
without = "Ann has 3 apples and buys 4. The answer is 7."
model = load_model("builtin")


def lowest(loaded, text: str) -> float:
    """The published statistic: normalised entropy, minimum over tokens, mean over heads."""
    values = record(loaded, loaded.encode(text), statistics=["normalised_entropy"])["normalised_entropy"]
    return values[..., 1:].amin(-1).mean().item()  # the first row sees one key and has no normalised entropy


for name, loaded in (("trained", model), ("permuted weights", permuted(model, seed=0))):
    difference = lowest(loaded, with_steps) - lowest(loaded, without)
    print(f"{name}: with steps minus without {difference:+.4f}")
print("What a model with permuted weights shows too is no evidence of anything learned.")
