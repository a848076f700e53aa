"""Which sentence of a reasoning trace reads which, and what does hiding one change?"""

from hf_analysis import load_model, trace

text = (
    "Ann has 3 apples and buys 4 more, then eats 2. How many are left? "
    "<think>She has 3 at first. Then she buys 4, so 3 + 4 = 7. She eats 2, so 7 - 2 = 5.</think> The answer is 5."
)
found = trace(load_model("builtin"), text, measures=["attention", "suppression"])
print(found.sentences().to_string())
print("who reads whom, mean over heads:")
print(found.matrix().round(3))
print("Each number stands beside its controls in `found.rows`; cotlens trace does many traces, with intervals.")
