"""Every head of a pretrained model on one text: exact statistics of every attention row, no attention matrix."""

from hf_analysis import load_model, record

loaded = load_model("builtin")  # or a directory, a .gguf file, a name of the hub
text = "Ann has 3 apples and buys 4. So she has 3 + 4 = 7 apples. The answer is 7."
statistics = ["normalised_entropy", "sink_mass", "effective_keys"]
# a line for each layer, head and token
table = record(loaded, loaded.encode(text), statistics=statistics).to_pandas()
print(table[["token", "layer", "head", *statistics]].tail(3))
by_head = table.groupby(["layer", "head"])["normalised_entropy"].mean().sort_values()
print("the sparsest heads (layer, head), mean over tokens:")
print(by_head.head(3))
print("attention on the first token, by layer:")
print(table.groupby("layer")["sink_mass"].mean().round(2).to_dict())
