"""A library for the one-sided engines that copies within this process, and misbehaves when told."""

import ctypes
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pdproto.engine.contract import EngineError, Extent
from pdproto.engine.one_sided import Description
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.one_sided_source import OneSidedSource
from pdproto.runtime.errors import RemoteProtocolError

ENGINE: Final = "obedient"


class Obedient:
    """See one_sided.Transport. What is registered with one is in the reach of all.

    rule: what becomes of a transfer. None: it is copied, and has ended well. Otherwise it is called
    with the copy, to make at any time or never, and returns what `ended` answers.
    """

    engine: Final = ENGINE
    registered: Final[dict[int, int]] = {}

    def __init__(self, version: str = "1.2.3") -> None:
        self.version: Final = version
        self.rule: Callable[[Callable[[], None]], bool | None] | None = None
        self.enlisted: Final[list[tuple[int, int]]] = []  # all that was ever registered here
        self.transfers: Final[list[Transfer]] = []
        self.expected = self.met = 0
        self.closed = False
        self.description: Description | None = None

    def register(self, memory: Extent) -> None:
        address, length, _ = memory
        if address in self.registered:
            raise EngineError(f"{address:#x} is registered already")
        self.registered[address] = length
        self.enlisted.append((address, length))

    def unregister(self, address: int) -> None:
        if not self.closed:
            del self.registered[address]

    def describe(self, _memory: Extent) -> Description:
        return self.description or Description(self.version, "here")

    def expect(self, writes: int) -> None:
        self.expected += writes

    def meet(self, description: Description) -> None:
        self.met += 1
        if description.peer != "here":
            raise RemoteProtocolError(f"nobody is called {description.peer!r}")

    def begin(self, peer: str, source: Extent, target: int) -> "Transfer":
        length = source.length
        for address in (source.address, target):
            if not any(start <= address and address + length <= start + size
                       for start, size in list(self.registered.items())):
                raise EngineError(f"{address:#x} is not registered with {peer}")
        data = ctypes.string_at(source.address, length)
        transfer = Transfer(length)
        self.transfers.append(transfer)

        def copy() -> None:
            ctypes.memmove(target, data, length)

        if self.rule is None:
            copy()
            transfer.well = True
        else:
            transfer.well = self.rule(copy)
        return transfer

    def ended(self, handle: "Transfer") -> bool | None:
        return handle.well

    def close(self) -> None:
        self.closed = True
        for address, _ in self.enlisted:
            self.registered.pop(address, None)


@dataclass(slots=True)
class Transfer:
    """One transfer. well: how it has ended, None while it is under way."""

    bytes: int
    well: bool | None = None


class ObedientSource(OneSidedSource):
    """With a library of its own, of this version."""

    engine = ENGINE

    def __init__(self, version: str = "1.2.3", *, writes_max: int = 64) -> None:
        self.obedient: Final = Obedient(version)
        super().__init__(self.obedient, writes_max=writes_max)


class Fault:
    """Rules to give to a library."""

    def __init__(self) -> None:
        self.late: Final[deque[Callable[[], None]]] = deque()

    def lies(self, _copy: Callable[[], None]) -> bool:
        """It reports success, and nothing has landed."""
        return True

    def is_late(self, copy: Callable[[], None]) -> bool:
        """It reports failure, and lands with `land`."""
        self.late.append(copy)
        return False

    def hangs(self, copy: Callable[[], None]) -> None:
        """It is under way for ever."""
        self.late.append(copy)

    def land(self) -> None:
        while self.late:
            self.late.popleft()()


class ObedientSink(OneSidedSink):
    """With a library of its own."""

    def __init__(self, *, capacity_bytes: int = 64 << 20) -> None:
        self.obedient: Final = Obedient()
        super().__init__(self.obedient, capacity_bytes=capacity_bytes)
