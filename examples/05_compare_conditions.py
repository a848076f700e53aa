"""Is attention over one sentence sparser after reasoning than after a story of equal length? Paired by problem."""

import tempfile
from pathlib import Path

from hf_analysis import load_model, load_problems, measure
from interp import Side, contrast

model, problems = load_model("builtin"), load_problems("builtin", limit=2)  # two show how; a result needs many
with tempfile.TemporaryDirectory() as out:  # a real run keeps its directory: --resume goes on there
    table = measure(
        model, problems, ("cot_clean", "prose_clean"), Path(out) / "run", scopes=["final"], metrics=["min"]
    )

found = contrast(table, Side("cot_clean", "min", "final"), Side("prose_clean", "min", "final"))
for problem, difference in zip(found.units, found.differences.mean((1, 2))):
    print(f"{problem}: {difference:+.4f}, mean over heads")
print("over problems, with its interval:", found.overall(level=0.95))
