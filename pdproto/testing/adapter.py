"""What an engine shows of itself to the conformance kit: its calls, its polls, and its wire.

An adapter stands for one prefill rank and one decode rank with the network between them cut: what
either says comes to the kit, which delivers it later, again, or never.

Rule 1: a method returns when the engine has come to rest, with all that it has said meanwhile.
Rule 2: the bytes of a chunk are said too: a write is under way from when it is said to when it is
        delivered, and then it lands, unless the memory is kept from it.
Rule 3: the decode rank has staging memory for one room at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from pdproto.spec.handoff.poll import KVPoll

WRITE: Final = "write"
GONE: Final = "gone"


class Side(StrEnum):
    """The server that an end belongs to."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Said:
    """One thing on the wire.

    kind: "introduce", "expecting", "publish", "abort", "done", "failed", "abort_ack" or "drained",
    as in the tables; "gone", that the process with which the room was begun is no more; or "write".
    chunk: of a write, from 0. inside: the adapter's own; it comes back with the delivery.
    """

    kind: str
    room: int
    chunk: int = 0
    inside: object = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.kind}({self.room}{f', chunk {self.chunk}' if self.kind == WRITE else ''})"


class Adapter(Protocol):
    """An engine under test. Rooms are 0 and 1, each opened once on either side."""

    def open(self, side: Side, room: int) -> Iterable[Said]:
        """The application opens a sender (prefill) or a receiver (decode)."""

    def publish(self, room: int) -> Iterable[Said]:
        """Decode's application has pages for the room: its address may go out."""

    def send(self, room: int, chunk: int, last: bool) -> Iterable[Said]:
        """Prefill's application hands over a chunk."""

    def poll(self, side: Side, room: int) -> KVPoll:
        """What the application is answered. It changes nothing."""

    def abort(self, side: Side, room: int) -> Iterable[Said]:
        """The application gives the room up."""

    def deliver(self, said: Said) -> Iterable[Said]:
        """What was said reaches the other side; "gone" reaches decode."""

    def crash(self, side: Side) -> Iterable[Said]:
        """The process dies, and another is in its place that knows nothing."""
