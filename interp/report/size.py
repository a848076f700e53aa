"""Is a run as large as the published one? Only of that size are a judge's error rates and a claim's wording known.

Judges are simulated at the size of the cpu preset, with its own number of seeds, and what a claim says of its
sentence was written of a run of that size (`interp.core.severity`, `Claim.falls_short`).
"""

from collections.abc import Mapping
from typing import Any

from interp.core.claim import Claim
from interp.core.published import preset_with

PUBLISHED = "cpu"
"""The preset of the published runs, and of the simulated ones."""
OF_PUBLISHED = "Of the published run: "
"""How what was written of the published run begins beside another one."""


def is_published_size(claim: Claim, preset_name: str, numbers: Mapping[str, Any]) -> bool:
    """Whether a run has the numbers of the cpu preset, that of seeds included; its first seed may be another."""
    if preset_name != PUBLISHED:
        return False
    try:
        given = preset_with(claim, preset_name, numbers)
    except ValueError:  # numbers that the preset no longer has
        return False
    return given.seeds == claim.preset(PUBLISHED).seeds


def published_size(claim: Claim) -> str:
    """That size in words: "6 seeds", or the preset's name where problems are the unit of replication."""
    seeds = claim.preset(PUBLISHED).seeds
    return f"{seeds} seeds" if seeds > 1 else f"the {PUBLISHED} preset"
