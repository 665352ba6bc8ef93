"""The interface of an observer of a machine's steps (store.py)."""

from typing import Protocol

from pdproto.runtime.cells import Key
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Row
from pdproto.spec.language.symbols import Symbol


class Witness(Protocol):
    """Observes every step of a machine; trace_shared.py writes a trace in this way."""

    def fired(self, row: Row, names: tuple[str, ...], parameters: Key) -> None:
        """Called when a row fires. names: of the parameters, in their order."""

    def heard(self, message: Symbol, arguments: Key) -> None:
        """Called when a message arrives that triggers no row, but that rows read."""

    def written(self, symbol: Symbol, arguments: Key, value: Value) -> None:
        """Called when another machine has written a variable that this one shares."""
