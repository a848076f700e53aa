"""A process that is connected to a Ray cluster and runs commands there: imports and workers are paid for once.

python -m tests.interp.core.ray_driver ADDRESS

Reads orders from standard input, one JSON object a line, and answers each with one line: {"words": [...]} runs a
command, {"placed": [n, cpus, gpus]} starts so many actors and says where each is: its machine and its GPUs,
{"answers": address} says how a cluster answers there.
"""

import contextlib
import io
import json
import os
import sys

import ray
import torch

import interp.commands.claims
import interp.commands.entropy  # noqa: F401
from interp.cli import main
from interp.core import ray_engine
from interp.core.ray_actors import actors


class Where:
    """What an actor holds that only says where it is."""

    def am_i(self, _: None) -> bytes:
        node = ray.get_runtime_context().get_node_id()
        return json.dumps(
            [node, sorted(map(str, ray.get_gpu_ids())), os.environ.get("CUDA_VISIBLE_DEVICES")]
        ).encode()


def placed(n: int, cpus: int, gpus: float) -> list:
    """Where each of `n` actors is: every one is asked itself, past the queue."""
    with actors(n, None, cpus, gpus) as pool:
        list(pool.calls(Where, "am_i", [None]))
        found = [ray.get(member.call.remote("am_i", None)) for member in pool.members]
    return [json.loads(data) for _, data in found]


def command(words: list[str]) -> dict:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = main(words)
    return {"status": status, "output": output.getvalue()}


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # for answers alone
    torch.set_num_threads(1)
    ray.init(address=sys.argv[1], log_to_driver=False)
    print("connected", file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        match order:
            case {"placed": [n, cpus, gpus]}:
                answer = placed(n, cpus, gpus)
            case {"answers": address}:
                ray_engine._require_answer(address)
                answer = "as Ray does"
            case _:
                answer = command(order["words"])
        print(json.dumps(answer), file=answers, flush=True)
