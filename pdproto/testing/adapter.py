"""The interface between the conformance kit and an engine: its calls, its polls, and its wire.

An adapter stands for one prefill rank and one decode rank. There is no network between them: each
message goes to the kit, which delivers it later, again, or never.

Rule 1: a method returns when the engine has nothing left to do, with all messages sent meanwhile.
Rule 2: the write of a chunk counts as a message too. The write is in flight until the kit delivers
        it. Then it lands, unless a fence refuses it.
Rule 3: the decode rank has staging memory for one room at a time.
Rule 4: each side has a pool of pages, from which a room holds some: at prefill from `open` until
        nothing reads them, at decode from its grant of memory until its failure or `close`.
"""

from collections.abc import Collection, Iterable
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
    """One message or write on the wire.

    kind: "introduce", "expecting", "publish", "abort", "done", "failed", "abort_ack" or "drained",
    as in the tables; "gone": the process that began the room has ended; or "write". chunk: the
    number of the chunk that is written, from 0. inside: data of the adapter, which it gets back
    with the delivery.
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
        """Decode's application has pages for the room, so their address may be sent."""

    def send(self, room: int, chunk: int, last: bool) -> Iterable[Said]:
        """Prefill's application hands over a chunk, from 0 on. last: it is the last one."""

    def poll(self, side: Side, room: int) -> KVPoll:
        """The answer of `poll()` to the application. It changes nothing."""

    def pages(self, side: Side, room: int) -> Collection[int]:
        """The numbers of the pages that the room holds on this side now. It changes nothing."""

    def close(self, room: int) -> Iterable[Said]:
        """Decode's application gives the pages of a room that has ended back."""

    def abort(self, side: Side, room: int) -> Iterable[Said]:
        """The application aborts the room."""

    def deliver(self, said: Said) -> Iterable[Said]:
        """A message or write reaches the other side; "gone" reaches decode."""

    def crash(self, side: Side) -> Iterable[Said]:
        """The process dies, and a new process without its state replaces it."""
