"""`cotlens`: finds the command, turns bad input into one line and exit status 2.

The table below is all that `cotlens --help` needs; a command's module, and torch with it, is imported only when
that command runs.
"""

import contextlib
import importlib
import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence

from probes.base.lazy import collector_paused

COMMANDS = {
    "demo": "train toy models, measure a pretrained one, judge three claims, write a report (minutes)",
    "train": "train one toy model on a task: cotlens train parity --out DIR",
    "entropy": "attention entropy of a pretrained model, with and without CoT, with controls",
    "heads": "which heads of a pretrained model are of a known kind: induction, sink, copying, ...",
    "trace": "sentence by sentence: what a reasoning trace reads, what it needs, what its answer depends on",
    "probe": "attention, linear and causal probes of a training run: cotlens probe RUN_DIR",
    "claims": "list the papers' claims, or run and judge them",
    "report": "one self-contained HTML page from the rows of runs",
    "bench": "time training, entropy, patching, generation and traces against their peers, as ratios",
    "doctor": "what is installed, what is missing, which device, which caches",
}
GOES_ON = {
    "demo": "; the same command goes on",
    **dict.fromkeys(("train", "entropy", "heads", "trace", "claims run"), "; the same command with --resume goes on"),
    "claims plan": "; the same command begins again: without --record nothing is kept",
    "claims plan --record": "; the same command with --resume goes on",
}
"""What an interrupted command is told; the others begin again."""
PATIENCE = 5.0
"""Seconds in which a command that was interrupted cleans up undisturbed."""
LARGEST = 2**63 - 1
"""What 64 bits hold: no library counts further."""
OUT_OF_MEMORY = (
    "allocate memory", "size calculation overflowed", "failed to map segment", "bad_alloc", "can't start new thread",
)  # fmt: skip
"""How torch (also of more than there can be), the dynamic linker, C++ and Python call it."""
USAGE = "usage: cotlens COMMAND [options]      cotlens COMMAND --help explains a command\n\ncommands:\n" + "".join(
    f"  {name:<8} {summary}\n" for name, summary in COMMANDS.items()
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; 0 done, 2 bad input, 130 interrupted, 141 nobody reads the output any more."""
    if sys.stdout is None:  # closed: the next file that is opened would be in its place
        return _refuse("standard output is closed; where nobody reads, redirect it to a file")
    _print_anything()
    interrupted_lately = _heed_one_interrupt() if argv is None else lambda: False
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(arguments)
        sys.stdout.flush()  # here a broken pipe is still noticed
        return status
    except KeyboardInterrupt:
        return _interrupted(arguments)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # rich has noticed it first
            return 141
        raise
    except Exception as error:
        if _follows_an_interrupt(error) or interrupted_lately():
            return _interrupted(arguments)
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return 141  # as shells call it: `cotlens claims list | head` is no fault
        out_of_memory = isinstance(error, MemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)
        out_of_memory |= isinstance(error, (ImportError, SystemError)) and _memory_is_limited()
        ours = isinstance(error, (ValueError, OSError))
        if os.environ.get("COTLENS_TRACEBACK") or not (ours or out_of_memory):
            raise
        said = str(error) or type(error).__name__
        if said.startswith("Overflow when unpacking"):  # torch, of a task that is made while options are read
            said = f"a number is beyond what 64 bits hold, which torch counts with ({said})"
        return _refuse(f"out of memory: choose smaller sizes ({said})" if out_of_memory else said)


def _run(arguments: Sequence[str]) -> int:
    """The status of the command that `arguments` ask for."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        from importlib.metadata import version

        print(f"cotlens {version('cotlens')}")
        return 0
    if name not in COMMANDS:
        return _refuse(f"unknown command {name!r}; the commands are {', '.join(COMMANDS)}")
    with collector_paused():
        command = importlib.import_module(f"interp.commands.{name}")
    command.main(rest)
    return 0


def _heed_one_interrupt() -> Callable[[], bool]:
    """Repeated interrupts count as one: the second would break off what the first has begun to clean up.

    Returned is whether one came in the last `PATIENCE` seconds: compiled code that is interrupted may raise an error
    of its own, which says nothing of it.

    A pool whose workers were not ended, for one, would wait for their items. After `PATIENCE` seconds another counts
    again: code of others may have swallowed the first. Where interrupts are ignored already, as in the background of
    a shell, they stay so.
    """
    import signal
    import threading
    import time

    heeded = -math.inf

    def interrupt(signum, frame) -> None:
        nonlocal heeded
        if time.monotonic() - heeded >= PATIENCE:
            heeded = time.monotonic()
            raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()  # no other may say what becomes of signals
    if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    return lambda: time.monotonic() - heeded < PATIENCE


def _interrupted(arguments: Sequence[str]) -> int:
    name = " ".join(arguments[: 2 if arguments[:1] == ["claims"] else 1])
    if name == "claims plan" and any(word.split("=")[0] == "--record" for word in arguments):
        name += " --record"
    print(f"cotlens: interrupted{GOES_ON.get(name, '')}", file=sys.stderr)
    return 130


def _follows_an_interrupt(error: BaseException | None) -> bool:
    """Whether it was raised while an interrupt was on its way out, as by a pool that had only half begun."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _memory_is_limited() -> bool:
    """Whether the process has a limit of its own (`ulimit -v`): then an import may fail in any way."""
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def parse(kind, arguments: Sequence[str], program: str):
    """tyro's reading of `arguments` as `kind`; what it refuses becomes one line."""
    import inspect

    import tyro

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            read = tyro.cli(kind, args=list(arguments), prog=f"cotlens {program}", description=inspect.getdoc(kind))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise ValueError(_one_line(complaint.getvalue())) from None
    _require_countable(read)
    return read


def _require_countable(options) -> None:
    """A ValueError if a whole number among the options, and those within, is beyond what any library counts to."""
    import dataclasses

    for part in dataclasses.fields(options):
        value = getattr(options, part.name)
        if dataclasses.is_dataclass(value):
            _require_countable(value)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and not -LARGEST <= number <= LARGEST:
                option = f"--{part.name.replace('_', '-')}"
                digits = len(str(abs(number)))
                raise ValueError(
                    f"{option} must be between -{LARGEST} and {LARGEST}, got a number of {digits} digits"
                )


def _print_anything() -> None:
    """A letter that the terminal's encoding lacks is printed as its number: no result is lost for it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):  # as LANG=C has
            stream.reconfigure(errors="backslashreplace")


def _nobody_reads() -> bool:
    """Whether standard output is a pipe without a reader; then nothing more goes there, not even on exit."""
    import select

    if not hasattr(select, "poll"):  # Windows: nobody can tell
        return False
    pipe = select.poll()
    try:
        pipe.register(sys.stdout.fileno(), 0)  # errors are told unasked
    except (OSError, ValueError):
        return False  # closed, or no file at all
    gone = bool(pipe.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


def _refuse(message: str) -> int:
    print(f"cotlens: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _one_line(box: str) -> str:
    """What tyro writes about an error, without frame and rules; its title only says again what the text does."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    lines = [re.sub(r"[│╭╮╰╯─]+|^-+$", " ", line).strip() for line in plain.splitlines()]
    title, *text = [line for line in lines if line] or [""]
    return " ".join(text) or title


if __name__ == "__main__":
    sys.exit(main())
