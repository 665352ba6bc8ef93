"""The trace of the transfer workers of a prefill manager of SGLang.

A worker has one chunk at a time. Which of the room's chunks it is follows from their order: all
chunks of a room are in one queue, and one worker empties it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lab.sglang_0_5_23.ledger import FAILED, SUCCESS, Ledger, Watched, node_name, wrap

TRANSFERRING: Final = 3
KV_WRITES: Final = ("send_kvcache", "send_kvcache_slice")


@dataclass(slots=True)
class Work:
    """A chunk that a worker sends. over: its end has been told. looked: the worker has found
    that the room has not failed. posted, landed: at whom."""

    room: int
    c: int
    is_last: bool
    over: bool = False
    looked: bool = False
    posted: list[str] = field(default_factory=list)
    landed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Queue:
    """The chunks of a room that wait, and whether each is the last of its use of the room.

    They are numbered over all uses of the room.
    """

    length: int = 0
    waiting: deque[tuple[int, bool]] = field(default_factory=deque)


class WorkerTrace:
    """begin: tells the ledger of a room that is new."""

    def __init__(self, manager: Any, ledger: Ledger, begin: Callable[[int], None]) -> None:
        self.manager: Final = manager
        self.ledger: Final = ledger
        self._begin: Final = begin
        self._queues: Final[dict[int, Queue]] = {}
        self._thread: Final = threading.local()  # work: the chunk that this thread sends
        self._is_anew = False
        manager._staging_outstanding = Watched(
            ledger.lock, manager._staging_outstanding, on_set=self._counted,
            on_pop=self._uncounted, default=int)
        wrap(manager, "add_transfer_request", self._send)
        wrap(manager, "check_status", self._look)
        wrap(manager, "conclude_transfer", self._conclude)
        wrap(manager, "poison_deferred_ack_room", self._poison)
        wrap(manager, "send_aux", self._send_aux)
        for name in KV_WRITES:
            wrap(manager, name, self._send_kv)
        if hasattr(manager, "_await_handles"):  # NIXL
            wrap(manager, "_await_handles", self._await)

    @property
    def work(self) -> Work | None:
        found: Work | None = getattr(self._thread, "work", None)
        return found

    @contextmanager
    def making_anew(self) -> Iterator[None]:
        """While a status is written: dropping the state of an earlier use is a part of that."""
        outer, self._is_anew = self._is_anew, True
        try:
            yield
        finally:
            self._is_anew = outer

    def updated(self, room: int, before: Any, status: Any) -> None:
        if status == TRANSFERRING and before not in (None, FAILED) and self.work is not None:
            self.ledger.row(room, "mark_transferring", c=self.work.c)

    # The queue

    def _send(self, original: Callable[..., Any], room: int, pages: Any, where: Any,
              is_last: bool, *rest: Any, **options: Any) -> None:
        with self.ledger.lock:
            self._begin(room)
            queue = self._queues.setdefault(room, Queue())
            is_dropped = self.manager.request_status.get(room) in (None, FAILED)
            c = queue.length
            self.ledger.count(room, "Chunk", c + (1 if is_last or is_dropped else 2))
            if is_dropped:
                self.ledger.row(room, "ignore_send_absent_failed", c=c)
            elif room in self.manager.transfer_infos:
                queue.length += 1
                queue.waiting.append((c, is_last))
                self.ledger.row(room, "send", c=c)
            original(room, pages, where, is_last, *rest, **options)

    def _counted(self, room: int, before: Any, after: int) -> None:
        if after > (before or 0):
            self._take(room, in_debt=(before or 0) < 0)
            return
        work = self.work
        if work is None or work.room != room:
            return
        if not work.is_last and not work.over:
            work.over = True
            self.ledger.row(room, "finish", c=work.c)
        was_dropped = (before or 0) < 1
        self.ledger.row(room, "uncount_below_zero" if was_dropped else "uncount", c=work.c)

    def _take(self, room: int, *, in_debt: bool) -> Work:
        work = Work(room, *self._queues[room].waiting.popleft())
        self._thread.work = work
        self.ledger.row(room, "dequeue_in_debt" if in_debt else "dequeue", c=work.c)
        return work

    def _uncounted(self, room: int, found: int | None) -> None:
        """An entry is taken out: because of a chunk that is skipped, or because all is done."""
        if self._is_anew:
            return
        work, queue = self.work, self._queues.get(room)
        if found is None and queue is not None and queue.waiting and (
                room not in self.manager.request_status):
            work = self._take(room, in_debt=False)  # NIXL: not even counted
        elif not found:
            return
        if work is not None and work.room == room and not (work.over or work.posted):
            work.over = True
            self.ledger.row(room, "skip_unaddressed" if work.looked else "skip", c=work.c)

    def _look(self, original: Callable[..., Any], room: int) -> Any:
        """A worker asks for the status of a room: once for a chunk that it has taken."""
        work = self.work
        if work is None or work.room != room or work.looked or work.over:
            return original(room)
        with self.ledger.lock:
            found = original(room)
            if found != FAILED:
                work.looked = True
                is_there = room in self.manager.request_status
                self.ledger.row(room, "look" if is_there else "look_cleared", c=work.c)
            return found

    # The writes

    def _peer(self, told: Any) -> str:
        """The sink of a session, given by its id, the name of its agent, or one of its messages."""
        name = told if isinstance(told, str) else told.mooncake_session_id
        info = self.manager.decode_kv_args_table[name]
        return node_name(info.endpoint, info.dst_port)

    def _post(self, d: str) -> None:
        work = self.work
        if work is not None and d not in work.posted:
            with self.ledger.lock:
                work.posted.append(d)
                self.ledger.row(work.room, "post", d=d, c=work.c)

    def _land(self, d: str) -> None:
        work = self.work
        if work is not None and d not in work.landed:
            with self.ledger.lock:
                work.landed.add(d)
                of = [self.ledger.node, work.room, d, work.c]
                self.ledger.written(work.room, "write", of, "landed")

    def _send_kv(self, original: Callable[..., Any], session: str, *rest: Any, **options: Any
                 ) -> Any:
        d = self._peer(session)
        self._post(d)
        found = original(session, *rest, **options)
        if self.work is not None and not self.work.is_last and is_zero(found):
            self._land(d)
        return found

    def _send_aux(self, original: Callable[..., Any], told: Any, *rest: Any) -> Any:
        d = self._peer(told)
        self._post(d)
        found = original(told, *rest)
        if is_zero(found):
            self._land(d)
        return found

    def _await(self, original: Callable[..., Any], handles: Any, *, failure_seen: bool) -> Any:
        settled, failed = original(handles, failure_seen=failure_seen)
        if settled and not failed and self.work is not None:
            for d in self.work.posted:
                self._land(d)
        return settled, failed

    # The end

    def _conclude(self, original: Callable[..., Any], **told: Any) -> Any:
        room, work = told["bootstrap_room"], self.work
        with self.ledger.lock:
            found = original(**told)
            if work is not None and work.room == room and not work.over:
                work.over = True
                after = self.manager.request_status.get(room)
                name = _ending(told["status"], found, after)
                self.ledger.row(room, name, c=work.c)
            return found

    def _poison(self, original: Callable[..., Any], room: int) -> None:
        work = self.work
        with self.ledger.lock:
            original(room)
            if work is not None and work.room == room and work.posted:
                self.ledger.row(room, "poison", d=work.posted[-1], c=work.c)


def _ending(asked: Any, answered: Any, after: Any) -> str:
    """The row by which a chunk ends that was to conclude like this."""
    if asked == FAILED:
        return "meet_error" if answered is not None else "meet_error_late"
    if answered is None:
        return "conclude_nothing"
    if answered == SUCCESS:
        return "succeed_anyway" if after == FAILED else "succeed"
    return "conclude_failed"


def is_zero(found: Any) -> bool:
    """Whether a call has returned 0, which is how Mooncake says that it is done."""
    return isinstance(found, int) and found == 0
