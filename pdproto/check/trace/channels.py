"""The order of messages in channels, as the traces of their senders give it."""

from collections.abc import Hashable, Iterable
from typing import Any, Final, TypeAlias

from pdproto.check.trace.cells import Cell
from pdproto.spec.language.channels import Channel, queue_at
from pdproto.spec.language.symbols import Message, Symbol

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
Key: TypeAlias = tuple[Hashable, ...]


class SentInOrder:
    """The messages that were sent into channels and have not come yet.

    lossy: the messages that the network can take off a channel. Only these can be overtaken.
    """

    def __init__(self, lossy: Iterable[AnyMessage]) -> None:
        self._lossy: Final = frozenset(lossy)
        self._waiting: Final[dict[tuple[Channel, Key], list[Cell]]] = {}

    def send(self, symbol: Symbol, key: Key) -> None:
        """Note a message that a trace has sent."""
        queue = self._queue(symbol, key)
        if queue is not None:
            self._waiting.setdefault(queue, []).append((symbol, key))

    def waits(self, message: AnyMessage, key: Key) -> bool:
        """Whether the message can come: it waits, or no trace has sent into its channel."""
        waiting = self._waiting.get(self._queue(message, key))  # type: ignore[arg-type]  # None
        return waiting is None or (message, key) in waiting

    def take(self, message: AnyMessage, key: Key) -> Cell | None:
        """Take the message off. Returns an earlier one that cannot be lost; None if it may come."""
        waiting = self._waiting.get(self._queue(message, key), [])  # type: ignore[arg-type]  # None
        while waiting:
            first = waiting.pop(0)
            if first == (message, key):
                return None
            if first[0] not in self._lossy:
                return first
        return None

    @staticmethod
    def _queue(symbol: Symbol, key: Key) -> tuple[Channel, Key] | None:
        return queue_at(symbol, key) if isinstance(symbol, Message) else None


def element_names(symbol: Symbol, key: Key) -> str:
    """A message of a trace as text: `token(a, b)`."""
    return f"{symbol.name}({', '.join(map(str, key))})"
