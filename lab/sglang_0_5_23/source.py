"""The trace of a prefill manager of SGLang: its senders, and its control thread.

Nothing of SGLang is replaced: its methods are called as they are, and its dictionaries only report
their changes besides. Pipeline stages, staging and dummy ranks cannot be traced.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from sglang.srt.disaggregation.common.conn import AbortNotification

from lab.peers.sglang_source import SOURCE
from lab.sglang_0_5_23.ledger import FAILED, SUCCESS, Ledger, Watched, node_name, wrap
from lab.sglang_0_5_23.worker import WorkerTrace
from pdproto.runtime.trace import TraceTarget

WAITING: Final = 2


class SourceTrace:
    """Attached to a prefill manager, it writes its trace from then on. Raises ValueError for one
    that the tables do not describe.
    """

    def __init__(self, manager: Any, target: TraceTarget) -> None:
        if manager.pp_size > 1 or manager.enable_staging or manager.is_dummy_cp_rank:
            raise ValueError("the tables know no pipeline stages, no staging and no dummy ranks")
        self.manager: Final = manager
        self.node: Final = node_name(manager.local_ip, manager.rank_port)
        self.ledger: Final = Ledger(self.node, SOURCE, target, lambda: manager.request_status)
        self._seen: Final[set[int]] = set()  # rooms that have had a sender,
        self._owned: Final[set[int]] = set()  # and those that have one that was not cleared
        self._thread: Final = threading.local()  # metadata: which the control thread is about
        lock = self.ledger.lock
        manager.request_status = Watched(lock, manager.request_status, on_pop=self._cleared)
        manager.transfer_infos = Watched(
            lock, manager.transfer_infos, on_set=self._expected, on_pop=self._forgotten)
        self.worker: Final = WorkerTrace(manager, self.ledger, self._begin)
        wrap(manager, "update_status", self._update)
        wrap(manager, "_handle_abort_notification", self._hear_abort)
        wrap(manager, "_send_abort_ack", self._acknowledge)

    def _status(self, room: int) -> Any:
        return self.manager.request_status.get(room)

    def _begin(self, room: int) -> None:
        self.ledger.room(room, {"Sink": [], "Chunk": 1, "Generation": []})

    # Calls of the scheduler

    def created(self, room: int, create: Callable[[], Any]) -> None:
        """A sender is made for the room."""
        with self.ledger.lock:
            is_there, before = room in self.manager.request_status, self._status(room)
            create()
            self._begin(room)
            name = "reopen_sender" if room in self._seen else "open_sender"
            if is_there:
                abandoned = room in self._owned and before == FAILED
                name += "_abandoned" if abandoned else "_late"
            self._seen.add(room)
            self._owned.add(room)
            self.ledger.row(room, name)

    def aborted(self, sender: Any, abort: Callable[[], Any]) -> None:
        room = sender.bootstrap_room
        with self.ledger.lock:
            is_over = self._status(room) in (None, FAILED)
            abort()
            self.ledger.row(
                room, "ignore_abort_sender_absent_failed" if is_over else "abort_sender")

    def timed(self, sender: Any, check: Callable[[], Any]) -> Any:
        """The bootstrap's time-out has been looked at."""
        with self.ledger.lock:
            found = check()
            if found is not None:
                self.ledger.row(sender.bootstrap_room, "give_up_waiting")
            return found

    def _cleared(self, room: int, status: Any) -> None:
        self._owned.discard(room)
        if status is not None:
            self.ledger.row(room, "clear")

    def _forgotten(self, room: int, infos: Any) -> None:
        for info in list((infos or {}).values())[:1]:
            self.ledger.row(room, "forget_addresses", d=node_name(info.endpoint, info.dst_port))

    # Messages to the control thread

    def _expected(self, room: int, _: Any, infos: Any) -> None:
        """The first metadata of a room. From now on the addresses of its sinks are traced."""
        watched = Watched(self.ledger.lock, infos, on_set=partial(self._published, room))
        dict.__setitem__(self.manager.transfer_infos, room, watched)

    def _published(self, room: int, _: str, __: Any, info: Any) -> None:
        infos = self.manager.transfer_infos[room]
        required = info.required_dst_info_num
        self._begin(room)
        names = [node_name(one.endpoint, one.dst_port) for one in (
            *infos.values(), *self.manager.decode_kv_args_table.values())]
        for name in list(dict.fromkeys(names))[:required]:
            self.ledger.name(room, "Sink", name)
        d = node_name(info.endpoint, info.dst_port)
        if len(infos) == required:
            self._thread.metadata = room, d  # its row is told with the status that it leads to
        else:
            self.ledger.row(room, "learn", d=d)

    def _update(self, original: Callable[..., Any], room: int, status: Any) -> None:
        with self.ledger.lock, self.worker.making_anew():
            before = self._status(room)
            original(room, status)
            expected, d = getattr(self._thread, "metadata", (None, None))
            if expected == room and status == WAITING:
                self._thread.metadata = None, None
                late = before in (SUCCESS, FAILED)
                suffix = "_early" if before is None else "_late" if late else ""
                self.ledger.row(room, f"learn_last{suffix}", d=d)
            self.worker.updated(room, before, status)

    def _hear_abort(self, original: Callable[..., Any], frames: Any) -> Any:
        told = AbortNotification.from_zmq(frames) if frames and frames[0] == b"ABORT" else None
        if told is None:
            return original(frames)
        room, k = told.room, str(told.generation)
        d = node_name(told.decode_ip, told.decode_port)
        with self.ledger.lock:
            is_active = self._status(room) not in (None, SUCCESS)
            is_poisoned = room in self.manager._deferred_ack_poisoned_rooms
            self._begin(room)
            self.ledger.name(room, "Sink", d)
            with self.ledger.held() as later:
                found = original(frames)
            if told.generation is None:
                name = "hear_early_abort" if is_active else "ignore_early_abort_absent_success"
                self.ledger.row(room, name, d=d)
            else:
                self.ledger.name(room, "Generation", k)
                late = "ignore_abort_absent_success" if is_poisoned else "hear_abort_late"
                heard = "hear_abort_poisoned" if is_poisoned else "hear_abort"
                self.ledger.row(room, heard if is_active else late, d=d, k=k)
            self.ledger.tell(later)
            return found

    def _acknowledge(self, original: Callable[..., Any], room: int, target: Any) -> None:
        with self.ledger.lock:
            self.ledger.row(room, "say_ack", d=node_name(target.ip, target.port),
                            k=str(target.generation))
            original(room, target)
