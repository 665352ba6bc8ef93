"""The trace of a decode manager of SGLang: its receivers, and the thread that gets messages.

Nothing of SGLang is replaced, as in source.py. SGLang's scheduler gives pages back when it
clears the state of a deferred release, and keeps them when it clears a receiver that succeeded.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from lab.peers.sglang_sink import SINK
from lab.sglang_0_5_23.ledger import FAILED, SUCCESS, Ledger, Watched, node_name, wrap
from pdproto.runtime.trace import TraceTarget


class SinkTrace:
    """Attached to a decode manager, it writes its trace from then on."""

    def __init__(self, manager: Any, target: TraceTarget) -> None:
        if manager.enable_staging or not manager.enable_deferred_decode_kv_release:
            raise ValueError("the tables know no staging, and no release that is not deferred")
        self.manager: Final = manager
        self.node: Final = node_name(manager.local_ip, manager.rank_port)
        self.ledger: Final = Ledger(self.node, SINK, target, lambda: manager.request_status)
        self._seen: Final[set[int]] = set()
        self._ranks: Final[dict[int, str]] = {}  # prefill ranks by the number in their frames
        self._thread: Final = threading.local()  # notified: the generation of an abort just sent
        manager.request_status = Watched(
            self.ledger.lock, manager.request_status, on_pop=self._cleared)
        wrap(manager, "apply_prefill_status", self._hear)
        wrap(manager, "note_abort_ack", self._note)
        wrap(manager, "clear_deferred_abort_state", self._release)
        wrap(manager, "_handle_node_failure", self._lose)

    def _status(self, room: int) -> Any:
        return self.manager.request_status.get(room)

    def _begin(self, room: int) -> None:
        self.ledger.room(room, {"Source": [], "Chunk": 1, "Generation": []})

    def located(self, rank: tuple[int, int, int], found: Any) -> None:
        """The registry has told where a prefill rank (cp, tp, pp) is."""
        cp, tp, pp = rank
        for info in self.manager.prefill_info_table.values():
            number = tp * info.pp_size * info.attn_cp_size + pp * info.attn_cp_size + cp
            self._ranks[number] = node_name(found["rank_ip"], found["rank_port"])

    # Calls of the scheduler

    def created(self, room: int, create: Callable[[], Any]) -> None:
        with self.ledger.lock:
            is_there = room in self.manager.request_status
            create()
            self._begin(room)
            name = "reopen_receiver" if room in self._seen else "open_receiver"
            self._seen.add(room)
            self.ledger.row(room, name + ("_abandoned" if is_there else ""))

    def initialized(self, receiver: Any, init: Callable[[], Any]) -> None:
        room = receiver.bootstrap_room
        with self.ledger.lock:
            is_over = self._status(room) == FAILED
            init()
            if is_over:
                return
            for info in getattr(receiver, "bootstrap_infos", None) or ():
                self.ledger.name(room, "Source", node_name(info["rank_ip"], info["rank_port"]))
            missed = self._status(room) == FAILED
            self.ledger.row(room, "miss_ranks" if missed else "find_ranks")

    def published(self, receiver: Any, send: Callable[[], Any]) -> None:
        room = receiver.bootstrap_room
        with self.ledger.lock:
            is_over = self._status(room) == FAILED
            self.ledger.row(room, "ignore_send_metadata_failed" if is_over else "publish")
            send()

    def notified(self, receiver: Any) -> None:
        """An abort has gone out to all prefill ranks."""
        self._thread.notified = (receiver._abort_generation,)

    @contextmanager
    def _telling(self) -> Iterator[Callable[[], tuple[bool, Any]]]:
        """Whether an abort went out meanwhile, and its generation."""
        with self.ledger.lock:
            self._thread.notified = ()
            yield lambda: (bool(self._thread.notified), *(self._thread.notified or (None,)))
            del self._thread.notified

    def aborted(self, receiver: Any, abort: Callable[[], Any]) -> None:
        room = receiver.bootstrap_room
        with self._telling() as told:
            before = self._armed_for(room)
            is_over = receiver.conclude_state == FAILED or self._status(room) == FAILED
            abort()
            sent, k = told()
            if not is_over and not sent:
                self.ledger.row(room, "abort_unfound")
            elif not is_over and k is None:
                self.ledger.row(room, "abort_unpublished")
            elif sent:
                self._armed(room, "notify" if is_over else "abort_published", k, before)

    def ensured(self, receiver: Any, ensure: Callable[[], Any]) -> None:
        """ensure_abort_notified, which may be a part of an abort."""
        if hasattr(self._thread, "notified"):
            ensure()
            return
        with self._telling() as told:
            before = self._armed_for(receiver.bootstrap_room)
            ensure()
            sent, k = told()
            if sent and k is not None:
                self._armed(receiver.bootstrap_room, "notify", k, before)

    def timed(self, receiver: Any, check: Callable[[], Any]) -> Any:
        with self._telling() as told:
            found = check()
            if found is not None:
                self._armed(receiver.bootstrap_room, "give_up", told()[1])
            return found

    def _armed_for(self, room: int) -> Any:
        """The generation whose answers count, if there is one."""
        state = self.manager._deferred_abort_ack_tracker.get(room)
        return None if state is None else state.generation

    def _armed(self, room: int, row: str, k: Any, before: Any = None) -> None:
        self.ledger.name(room, "Generation", str(k))
        if before is None:
            self.ledger.row(room, row, k=str(k))
        else:
            self.ledger.row(room, f"{row}_again", k=str(k), other=str(before))

    def _cleared(self, room: int, status: Any) -> None:
        if status is None:
            return
        if status == SUCCESS:
            self.ledger.row(room, "keep_pages", settled=False)
        self.ledger.row(room, "clear_receiver")

    def _release(self, original: Callable[..., Any], room: int) -> None:
        with self.ledger.lock:
            state = self.manager._deferred_abort_ack_tracker.get(room)
            original(room)
            if state is not None:
                wanted = self.ledger.size(room, "Source")
                drained = len(state.prefill_ranks) >= wanted
                name = "release_drained" if drained else "release_by_clock"
                self.ledger.row(room, name, k=str(state.generation))

    # Messages of prefill

    def _hear(self, original: Callable[..., Any], *, bootstrap_room: int, status: int,
              prefill_rank: int, failure_reason: str | None = None) -> None:
        room = bootstrap_room
        with self.ledger.lock:
            before = self._status(room)
            arrived = set(self.manager.prefill_response_tracker.get(room, ()))
            original(bootstrap_room=room, status=status, prefill_rank=prefill_rank,
                     failure_reason=failure_reason)
            self._begin(room)
            p = self._ranks.get(prefill_rank, f"rank {prefill_rank}")
            if status == FAILED:
                is_over = before in (None, FAILED)
                name = "ignore_failed_absent_failed" if is_over else "hear_failure"
            elif before in (None, FAILED):
                name = "ignore_success_absent" if before is None else "take_part_late"
            else:
                wanted = self.ledger.size(room, "Source")
                is_last = len(arrived | {prefill_rank}) >= wanted
                name = "take_last_part" if is_last else "take_part"
            self.ledger.row(room, name, p=p)

    def _note(self, original: Callable[..., Any], room: int, rank: int, generation: int) -> None:
        with self.ledger.lock:
            state = self.manager._deferred_abort_ack_tracker.get(room)
            original(room, rank, generation)
            counts = state is not None and state.generation == generation
            self._begin(room)
            self.ledger.name(room, "Generation", str(generation))
            self.ledger.row(room, "note_ack" if counts else "ignore_abort_ack",
                            p=self._ranks.get(rank, f"rank {rank}"), k=str(generation))

    def _lose(self, original: Callable[..., Any], address: str) -> None:
        with self.ledger.lock:
            rooms = set(self.manager.addr_to_rooms_tracker.get(address, ()))
            open_rooms = [room for room in rooms if self._status(room) not in (None, FAILED,
                                                                               SUCCESS)]
            original(address)
            for room in open_rooms:
                self.ledger.row(room, "lose_prefill")
