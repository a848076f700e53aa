"""What does the Hugging Face hub answer? Its refusals in one sentence each, with the remedy, for models and datasets.

transformers and datasets wrap what huggingface_hub raises in errors of their own, some of which advise what is not
possible here, so the cause is looked for behind them.
"""

import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any

LOG_IN = "log in with `hf auth login` or set HF_TOKEN"
NO_CONVERSION = "DISABLE_SAFETENSORS_CONVERSION"
"""Set, transformers does not ask a service to convert pickled weights and then read what that puts forward."""


@contextmanager
def asked_politely(offline: bool) -> Iterator[None]:
    """Within, the hub is asked for files only; if `offline`, for nothing at all, whatever a library would look up.

    What fails for good is told by `refusal` in one line; the warnings about every try before that are left out.
    """
    import huggingface_hub.constants

    switches: list[Any] = [vars(huggingface_hub.constants)]
    if "datasets" in sys.modules:
        switches.append(vars(sys.modules["datasets"].config))  # which copied the switch when it was imported
    with ExitStack() as stack:
        stack.enter_context(_held(os.environ, NO_CONVERSION, "1"))
        stack.enter_context(_errors_only())
        for switch in switches if offline else ():
            stack.enter_context(_held(switch, "HF_HUB_OFFLINE", True))
        yield


@contextmanager
def _errors_only() -> Iterator[None]:
    """Within, huggingface_hub tells of errors only."""
    from huggingface_hub.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextmanager
def _held(names: MutableMapping[str, Any], name: str, value: Any) -> Iterator[None]:
    before = names.get(name)
    names[name] = value
    try:
        yield
    finally:
        if before is None:
            del names[name]
        else:
            names[name] = before


def refusal(error: BaseException, offline: bool) -> str | None:
    """Why the hub did not give what was asked for, and what to do; None if the error is of another kind."""
    from huggingface_hub import constants, errors

    chain = list(_behind(error))

    def find(*kinds: type[BaseException]) -> BaseException | None:
        return next((one for one in chain if isinstance(one, kinds)), None)

    answered = find(errors.HfHubHTTPError)
    status = getattr(getattr(answered, "response", None), "status_code", 0)
    if find(errors.GatedRepoError) or "gated dataset" in str(error):
        return f"its owner grants access on request: ask for it on its page, then {LOG_IN}"
    if find(errors.RevisionNotFoundError):
        return "the hub has it, but no such revision of it"
    if find(errors.RepositoryNotFoundError) or "doesn't exist on the Hub" in str(error):
        return f"the hub has none of that name, or a private one: check the name, or {LOG_IN}"
    if status in (401, 403):
        return f"the hub refused with status {status}: check your token, or {LOG_IN}"
    if status >= 400 and status != 404:  # 404: a file that may be absent
        return f"the hub answered with status {status}: try again later, or use --offline for what is on this machine"
    if not find(errors.LocalEntryNotFoundError, ConnectionError) and not any(_is_transport(one) for one in chain):
        return None
    if offline or constants.HF_HUB_OFFLINE:
        return "it is not on this machine, and --offline or HF_HUB_OFFLINE forbids to fetch it"
    return (
        f"{constants.ENDPOINT} cannot be reached, or the line was cut: try again, what is there is kept, "
        "or use --offline for what is on this machine"
    )


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that led to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def _is_transport(error: BaseException) -> bool:
    """An error of the connection, under whichever name huggingface_hub's HTTP library goes."""
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
