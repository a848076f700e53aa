"""Compute a published conclusion again from its rows, without a model, and draw its figures."""

from pathlib import Path

from interp import find_claims
from interp.core.published import differences, judged_again, read_published

results = Path(__file__).parents[1] / "results"
(claim,) = find_claims(["wen2024/fig9"])
published = read_published(claim.id, results)
again = judged_again(claim, published, results)
print(f"{claim.id}: {again.judgement.conclusion} ({again.status})")
for verdict in again.judgement.verdicts:
    print(f"  {verdict.outcome}: {verdict.name}, {verdict.interval}, n = {verdict.n} {verdict.unit}")
print("what that leaves of the sentence:", claim.shortfall(again.judgement.conclusion) or "nothing")
print("differences from what is published:", differences(published, again.judgement.verdicts))
