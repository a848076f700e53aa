"""The kernel compiles for GPUs that are not here, into what fits on them. Nothing is run."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

COMPILE = """
import json, sys
from dataclasses import asdict
from probes.attention.kernel.compiled import compiled
for capability, d, options in json.loads(sys.argv[1]):
    print(json.dumps(asdict(compiled(capability, d, **options))))
"""
CASES = [
    (80, 64, {"masked": True}),
    (80, 128, {"softcap": 30.0}),
    (90, 128, {"masked": True}),
    (80, 256, {"masked": True}),
    (90, 64, {"groups": True}),
]


def test_every_variant_compiles_and_fits(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, json.dumps(CASES)],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(CASES)
    for case, one in zip(CASES, found):
        assert one["tensor_core"], case
        assert one["asynchronous"], case
        assert one["shared_bytes"] <= 99 * 1024, "the smallest GPUs from compute capability 8.0 on have no more"
        assert one["registers"] <= 255, case
        assert one["spilled_bytes"] <= 128, "a few registers may spill, a tile may not"
