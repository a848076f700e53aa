"""How much of an item's time does importing take? It is done once for each process, and belongs to no item."""

import builtins
import importlib
import time
from collections.abc import Callable
from typing import Any


class Imports:
    """Within, `seconds` adds up the processor time of imports; those that an import causes are part of it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.within = 0

    def __enter__(self) -> "Imports":
        self.before = builtins.__import__, importlib.import_module
        builtins.__import__, importlib.import_module = map(self._timed, self.before)
        return self

    def __exit__(self, *error: object) -> None:
        builtins.__import__, importlib.import_module = self.before

    def _timed(self, importing: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            started, self.within = time.process_time(), self.within + 1
            try:
                return importing(*given, **named)
            finally:
                self.within -= 1
                if not self.within:
                    self.seconds += time.process_time() - started

        return timed
