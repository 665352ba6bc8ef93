"""The copies between pages and the memory of an engine: done at once, or by a device later.

    staged = copies.pack(layout, pages, key, head)      # its bytes may go out when staged.done()
    found = copies.unpack(layout, landed, pages, key)   # its pages may be used when found.ready()

One thread, the worker of a data path, makes these calls. Any thread may ask for the outcomes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.contract import CLOSE_S, POLL_S, Buffer, DeviceBytes, Pin, SharesMemory
from pdproto.kernels.chunk import KVLayout
from pdproto.pages.device import DeviceEvent

Bytes: TypeAlias = NDArray[np.uint8]
Memory = TypeVar("Memory")

LAYOUTS_KEPT: Final = 256
BUFFERS_KEPT: Final = 64  # free buffers of one size
AT_ONCE_BYTES: Final = 64 << 10  # 20 us, with digests


class Computed(tuple[int, ...]):
    """Pages that may be used when an event has happened: at a source the end of the pass that
    computes them, at a sink that of the passes that have used them for an earlier request.
    """

    after: DeviceEvent

    @classmethod
    def by(cls, pages: Sequence[int], after: DeviceEvent) -> "Computed":
        """These pages, which may be used after this event."""
        computed = cls(pages)
        computed.after = after
        return computed


def computed_with(pages: Sequence[int], others: Sequence[int]) -> Sequence[int]:
    """These pages, which the same pass has computed as the others."""
    return Computed.by(pages, others.after) if isinstance(others, Computed) else pages


def end_of_pass(pages: Sequence[int]) -> DeviceEvent | None:
    """The event after which these pages may be used; None if they may be used now."""
    return pages.after if isinstance(pages, Computed) else None


class NoEvent:
    """The place of an event that the device has refused to record."""

    def __init__(self, error: Exception) -> None:
        self._error: Final = error

    def query(self) -> bool:
        """Raises the error of the device."""
        raise self._error


def nothing() -> None:
    """Give back no buffer."""


def at_once() -> bool:
    """Whether a copy in host memory is done: it was done when its call returned."""
    return True


@dataclass(frozen=True, slots=True)
class Staged:
    """The bytes of one write. done: whether they are complete; before that, they must not be sent,
    and the pages are being read. Raises RuntimeError if they never will be, and only when the pages
    are not being read any more. keep: call it when nothing reads the bytes any more. carried: the
    bytes, in the place of views, if the device copies them to where the engine says.
    """

    views: Sequence[Buffer]
    bytes: int
    done: Callable[[], bool] = at_once
    keep: Callable[[], None] = nothing
    carried: DeviceBytes | None = None


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Bytes that are copied into pages. ready: whether the copy is done; before that, the pages are
    being written. Raises RuntimeError if it never will be, and only when the pages are not being
    written any more. clean: whether all digests agree; call it once, when it is ready.
    """

    clean: Callable[[], bool]
    ready: Callable[[], bool] = at_once


class Copies(Protocol):
    """Packs and unpacks pages.

    pin: pins memory from which chunks are unpacked; None if it need not be pinned. shares: the
    device whose memory an engine can lease; None without a device. broken: why this process can
    copy nothing any more; None while it can.
    """

    @property
    def pin(self) -> Pin | None: ...

    @property
    def shares(self) -> SharesMemory | None: ...

    @property
    def broken(self) -> str | None: ...

    def warm(self, layout: KVLayout) -> None:
        """At the start: compile the kernels for these pools, and allocate a chunk of one page.

        Raises DeviceError if that fails, so that the start fails and not a request; and ValueError
        for pools that are elsewhere.
        """

    def begin_thread(self) -> None:
        """In the worker, first of all."""

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """In the application's thread: pages that it hands over, as `Computed` on a device."""

    def pack(
        self, layout: KVLayout, pages: Sequence[int], key: int, head: bytes = b"",
        after: DeviceEvent | None = None,
    ) -> Staged:
        """The bytes of a head and a chunk of pages, with their digests. after: the event after
        which the pages may be read.
        """

    def stage(self, head: bytes) -> Staged:
        """The bytes of a head alone."""

    def unpack(
        self, layout: KVLayout, landed: Any, pages: Sequence[int], key: int,
        after: DeviceEvent | None = None,
    ) -> Unpacked:
        """Copy a landed chunk into pages, and compare the digests of the stored bytes. landed: what
        `landed` returned, from the chunk's first byte on. after: the event after which the pages
        may be written.
        """

    def landed(self, view: Any) -> Any:
        """The memory of a lease, uint8 [byte], for `unpack`; view: see SinkEngine.view."""

    def fetch(self, landed: Any) -> Bytes:
        """The bytes of landed memory, which are few, in host memory."""


class Spares(dict[object, list[Memory]]):
    """Free buffers, by the size of chunk that they fit. Any thread may take and keep them."""

    def __init__(self) -> None:
        super().__init__()
        self._lock: Final = Lock()

    def take(self, fits: object, make: Callable[[], Memory]) -> Memory:
        """A free buffer, or a new one."""
        with self._lock:
            free = self.get(fits)
            if free:
                return free.pop()
        return make()

    def keep(self, fits: object, buffer: Memory) -> None:
        """Take a buffer back."""
        with self._lock:
            free = self.setdefault(fits, [])
            if len(free) < BUFFERS_KEPT:
                free.append(buffer)


class CopyWorker(ThreadPoolExecutor):
    """The thread of a data path that begins copies, and acts when they are done.

    A copy in host memory is done when its call returns, and a copy on a device later. The thread
    asks the device again and again, so that no other thread waits for it.

    begin: called in it first of all. is_closing: the data path is being closed. at_once_bytes: to
    copy in the thread of the node, between two calls of `refill`: a passage to this thread and back
    takes longer than to copy as many.
    """

    def __init__(self, name: str, begin: Callable[[], None], at_once_bytes: int = 0) -> None:
        super().__init__(1, name, begin)
        self.is_closing = False
        self._at_once_bytes: Final = at_once_bytes
        self._left = at_once_bytes
        self._last: Future[Any] | None = None
        self._acts: Final[deque[Callable[[], bool]]] = deque()  # no two threads at a time
        self._is_polling = False

    def refill(self) -> None:
        """In the thread of the node: a turn begins."""
        self._left = self._at_once_bytes

    def take(self, nbytes: int, act: Callable[..., object], *given: Any) -> None:
        """In the thread of the node: do this, which copies so many bytes, behind all that came
        before. It is done at once if that is over, and the bytes are few.
        """
        if nbytes < self._left and (self._last is None or self._last.done()):
            self._left -= nbytes
            act(*given)
        else:
            self.submit(act, *given)

    def submit(self, act: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """See Executor."""
        self._last = super().submit(act, *given, **named)
        return self._last

    def in_order(self, act: Callable[[], bool]) -> None:
        """On the thread: act when all acts before it have been done. act: returns whether it has
        acted; if not, it is called again.
        """
        self._acts.append(act)
        self._advance()

    def close(self) -> None:
        """End the thread. Copies that a device has begun are waited for, `CLOSE_S` at most."""
        self.is_closing = True
        self.shutdown(wait=True, cancel_futures=True)
        end = monotonic() + CLOSE_S
        while self._advance() and monotonic() < end:
            sleep(POLL_S)

    def _advance(self) -> bool:
        """Do the acts whose turn it is. Returns whether some are left."""
        while self._acts and self._acts[0]():
            self._acts.popleft()
        if self._acts and not (self._is_polling or self.is_closing):
            self._is_polling = True
            self.submit(self._poll)
        return bool(self._acts)

    def _poll(self) -> None:
        sleep(POLL_S)
        self._is_polling = False
        self._advance()
