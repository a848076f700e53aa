"""wen2024, Figures 6 and 7, on the paper's own problems: does CoT text make a pretrained model's attention sparser?

`fig6` on the test set of GSM8K, which is not shipped: it comes from the hub, or from the user's own copy
(`hf_analysis.text.sources`).
"""

from dataclasses import replace

from interp.claims.wen2024._fig6 import Fig6
from interp.claims.wen2024._worlds_fig6 import worlds
from interp.claims.wen2024.fig6 import CLAIM
from interp.core.claim import Scale, register
from interp.core.problem_runs import PROBLEMS, TINY

PRESETS = {
    "smoke": Fig6(TINY + "builtin", "builtin", limit=4, shard=2, baseline_limit=2),
    "cpu": Fig6("builtin", "openai/gsm8k", limit=400, shard=20, baseline_limit=100, first_unit=300),
    "paper": CLAIM.presets["paper"],
}

register(
    replace(
        CLAIM,
        id="wen2024/fig6-gsm8k",
        scale={
            **CLAIM.scale,
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights on 4 problems"),
            "cpu": Scale("another model", "SmolLM2-135M-Instruct for Qwen2-7B; 400 of the 1,319 problems of GSM8K"),
        },
        deviations=(
            "The paper measures Qwen2-7B on the GSM8K test set, which is the paper preset. cpu: the built-in "
            "SmolLM2-135M-Instruct on 400 of its problems, which come from the hub or from the user's own copy "
            "(COTLENS_DATA); smoke: four generated problems and a tiny model. The built-in one is tuned to "
            "instructions, reads plain text here, and its weights were rounded to 4 bits once. A verdict is "
            "about the model that was measured."
        ),
        presets=PRESETS,
        loops=(PROBLEMS,),
        worlds=worlds([f"openai_gsm8k-{place:05d}" for place in range(301, 701)]),
    )
)
