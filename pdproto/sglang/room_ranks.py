"""The data-parallel ranks of rooms, asked in threads of their own.

SGLang asks a prefill server's registry in decode's scheduler, for 5 s where it hangs, before each
step. It takes a room without an answer for one that no rank runs yet, and asks again.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from importlib import import_module
from time import sleep
from typing import Any, Final

from pdproto.net import threads

AGAIN_S: Final = 0.01  # between two questions to a server
UNDER_WAY_MAX: Final = 32  # servers that are asked at a time; others wait

Ask = Callable[[str, Sequence[int]], Mapping[str, int]]


class RoomRanks:
    """SGLang's `query_prefill_dp_ranks`, which waits for nothing. ask: SGLang's own."""

    def __init__(self, ask: Ask) -> None:
        self.ask: Final = ask
        self._found: Final[dict[str, dict[str, int]]] = {}
        self._under_way: Final[set[str]] = set()

    def __call__(self, address: str, rooms: Sequence[int]) -> dict[str, int]:
        """The ranks that are known, by room. The others are asked for."""
        found = self._found.pop(address, {})
        unknown = [room for room in rooms if f"{room}" not in found]
        if unknown and address not in self._under_way and len(self._under_way) < UNDER_WAY_MAX:
            self._under_way.add(address)
            threads.ServiceThread(
                lambda: self._look(address, unknown), "pdproto-room-ranks").start()
        return found

    def _look(self, address: str, rooms: Sequence[int]) -> None:
        try:
            self._found[address] = {**self._found.get(address, {}), **self.ask(address, rooms)}
            sleep(AGAIN_S)
        finally:
            self._under_way.discard(address)


class AtOnce(Executor):
    """The executor in which SGLang asks: a question waits for nothing."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """Call it here."""
        done: Future[Any] = Future()
        done.set_result(function(*given, **named))
        return done


def ask_in_threads() -> None:
    """Have SGLang ask so. A second call does nothing."""
    receiver = import_module("sglang.srt.disaggregation.common.conn").CommonKVReceiver
    if not isinstance(receiver.query_prefill_dp_ranks, RoomRanks):
        receiver.query_prefill_dp_ranks = RoomRanks(receiver.query_prefill_dp_ranks)
