"""A process with everything imported that forks a child for each command: a kill costs the command, not the imports.

Reads orders from standard input, one JSON object a line: the command's words, what to add to its environment and,
perhaps, when to kill it (after so many seconds, with so many children, or once a file like `once` is there) and by
which signal; 0: none, but it gets no more memory than it has. Answers each with
one line: its exit status (-9: killed), its seconds, its output, the last line of it and, if it was killed with its
children alive, the process ids of all that it had started. With LONGEST_SLEEP in the environment, no sleep takes
longer: libraries wait for seconds before they try again.
"""

import contextlib
import glob
import json
import multiprocessing.util
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import fontTools.subset  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.backends.backend_pdf
import matplotlib.backends.backend_svg  # noqa: F401
import plotly.offline  # noqa: F401
import reasoning_gym.arithmetic.gsm_symbolic  # noqa: F401
import torch
import transformer_lens.model_bridge  # noqa: F401
import transformers.models.llama.modeling_llama  # noqa: F401
import typeguard  # noqa: F401

import interp.commands.claims
import interp.commands.entropy
import interp.commands.heads
import interp.commands.trace
import interp.commands.train
import interp.core.sweep
import interp.figures.pretrained
import interp.report  # noqa: F401
import toy_models.parity.recipe  # noqa: F401
from interp.cli import main
from interp.core.claim import load_claims
from toy_models.task import load_tasks


def child(words: list[str], environment: dict[str, str], output: int) -> None:
    """Runs the command in the forked process; never returns."""
    os.setpgid(0, 0)
    os.environ.update(environment)
    os.dup2(output, 1)
    os.dup2(output, 2)
    status = 1
    try:
        sys.argv = ["cotlens", *words]
        status = main()  # as from a shell, interrupts included
    except BaseException:  # a command ends with a status; what else it ends with is to be seen
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        multiprocessing.util._exit_function()  # as at any exit; else semaphores of a pool are said to be leaked
        os._exit(status)


def children_of(parent: int) -> list[int]:
    """The processes that `parent` has started and that are still there."""
    found: list[int] = []
    for file in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            found += map(int, file.read_text().split())
    return found


def send(pid: int, by: int) -> None:
    """An interrupt goes to all that a command has started, as from a terminal; other signals to the command alone."""
    if by == signal.SIGINT:
        os.killpg(pid, by)
    elif by:
        os.kill(pid, by)
    else:
        limit_memory(pid)


def limit_memory(pid: int) -> None:
    """Lets a process have no more memory than it has now."""
    with contextlib.suppress(OSError):  # it has ended meanwhile
        resource.prlimit(pid, resource.RLIMIT_AS, (0, resource.RLIM_INFINITY))


def carried_out(
    words: list[str],
    kill_after: float | None,
    kill_with_children: int,
    once: str | None,
    by: int,
    environment: dict[str, str],
) -> dict:
    with tempfile.TemporaryFile("w+b") as output:
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            child(words, environment, output.fileno())
        with contextlib.suppress(OSError):  # whoever of the two is first
            os.setpgid(pid, pid)
        children: list[int] = []
        sent = False
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            late = kill_after is not None and time.monotonic() - started >= kill_after
            there = once is not None and bool(glob.glob(once))
            if not sent and (
                late or there or (kill_with_children and len(children := children_of(pid)) >= kill_with_children)
            ):
                children = children or children_of(pid)
                send(pid, by)
                sent = True
            time.sleep(0.001 if kill_after is not None or once is not None else 0.05)
        _, status = os.waitpid(pid, 0)
        output.seek(0)
        text = output.read().decode()
        lines = text.splitlines()
        return {
            "status": os.waitstatus_to_exitcode(status),
            "seconds": time.monotonic() - started,
            "output": text,
            "said": lines[-1] if lines else "",
            "children": children,
        }


if __name__ == "__main__":
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in its background
    if "LONGEST_SLEEP" in os.environ:
        sleep, longest = time.sleep, float(os.environ["LONGEST_SLEEP"])
        time.sleep = lambda seconds: sleep(min(seconds, longest))
    load_claims()
    load_tasks()
    for line in sys.stdin:
        print(json.dumps(carried_out(**json.loads(line))), flush=True)
    os._exit(0)  # to take the interpreter down properly takes seconds
