"""The books of a soak: requests, their outcomes, and complaints about violated claims."""

import copy
import re
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from lab.soak.messages import Ended, State
from pdproto.drill.handoff.load import Load

DRAINS: Final = "drains, and takes no new request"
CLOSED: Final = "it has been closed"  # by the last batch of a node (Connections.farewells)
NAMES: Final = re.compile(r"^prefill[-\d]+: |( to|, at)? (prefill|tcp)[-:/.\d]+")  # of ranks
NOTICED_S: Final = 1.0  # in which a rank that runs has seen that a room has failed
REASONS_MAX: Final = 100
OTHER: Final = "another reason"


class Totals(Struct):
    """Counts of a soak. drained: ranks that were empty after a drain, and replaced.

    reasons: of failures at decode. complaints: one line for each violated claim. The others are
    sums, or maxima, over all processes, as of their last rest.
    """

    routed: int = 0
    succeeded: int = 0
    failed: int = 0
    drained: int = 0
    reasons: dict[str, int] = {}
    complaints: list[str] = []
    verified_bytes: int = 0
    fences: int = 0
    late_writes_refused: int = 0
    lost_peers: int = 0
    files_max: int = 0
    resident_bytes_max: int = 0

    def add(self, state: State) -> None:
        """Add the numbers of a process, as of its last rest."""
        self.verified_bytes += state.verified_bytes
        self.fences += round(state.counters.get("fences_done", 0))
        self.late_writes_refused += round(state.counters.get("refused_writes", 0))
        self.lost_peers += round(state.counters.get("lost_peers", 0))
        self.files_max = max(self.files_max, state.files)
        self.resident_bytes_max = max(self.resident_bytes_max, state.resident)


@dataclass(slots=True)
class Books:
    """The totals, and the rooms that are not over. `totals` has the numbers of the processes that
    have ended; those of the others are in `states`, as of the last rest, by listener.

    decided: the rank that decided a room at decode, and whether it succeeded. failed: the ranks
    that say Failed, each with its message. sent: the listeners of the prefill ranks that say
    Success. left: the prefill ranks among them whose process has ended since then, because they
    said that they were empty. killed: the ranks whose process has ended in any way while another
    had the room open.
    """

    totals: Totals = field(default_factory=Totals)
    states: dict[str, State] = field(default_factory=dict)
    decided: dict[int, tuple[str, bool]] = field(default_factory=dict)
    failed: dict[int, dict[str, Ended]] = field(default_factory=dict)
    sent: dict[int, set[str]] = field(default_factory=dict)
    left: dict[int, set[str]] = field(default_factory=dict)
    killed: dict[int, set[str]] = field(default_factory=dict)

    @property
    def complaints(self) -> list[str]:
        """One line for each violated claim."""
        return self.totals.complaints

    def summed(self) -> Totals:
        """A copy of the totals, with the numbers of the processes that live now."""
        found = copy.deepcopy(self.totals)
        for state in self.states.values():
            found.add(state)
        return found

    def retire(self, listener: str) -> None:
        """Note that a process has ended."""
        state = self.states.pop(listener, None)
        if state is not None:
            self.totals.add(state)

    def note(self, name: str, listener: str, ended: Ended, *, is_sink: bool) -> None:
        """Note the outcome of a room at a rank."""
        room, reason = ended.room, ended.reason
        if ended.corrupt:
            self.complaints.append(
                f"{name}, room {room}: a page holds other bytes than were sent")
        if is_sink:
            self.decided[room] = name, ended.success
            self.totals.succeeded += ended.success
            self.totals.failed += not ended.success
            if not ended.success:
                self._count(NAMES.sub("", reason).strip())
                self._compare_with_drains(name, room, reason)
        elif ended.success:
            self.sent.setdefault(room, set()).add(listener)
        if not ended.success:
            self.failed.setdefault(room, {})[name] = ended

    def _count(self, reason: str) -> None:
        reasons = self.totals.reasons
        known = reason if reason in reasons or len(reasons) < REASONS_MAX else OTHER
        reasons[known] = reasons.get(known, 0) + 1

    def _compare_with_drains(self, name: str, room: int, reason: str) -> None:
        """Rule 5 of spec/handoff/drain.py: no request fails because an empty server was stopped."""
        self.complaints.extend(
            f"room {room}: {source} said that it was empty, its process was ended, and {name} "
            f"still needed it: {reason}"
            for source in self.left.get(room, ())
            if reason == f"lost connection to {source}: {CLOSED}")

    def note_left(self, name: str, listener: str, sure_from: int) -> None:
        """Note that a prefill rank says that it is empty. sure_from: see Left.

        Rooms of which it may have lost the decode rank do not count: a drain does not wait for it.
        """
        for room, listeners in self.sent.items():
            if listener in listeners and room >= sure_from:
                self.left.setdefault(room, set()).add(name)

    def close(self, room: int, load: Load, *, is_open: bool) -> None:
        """Compare the outcomes of a room (S14: a hand-over that succeeds at decode has not failed
        at any rank). is_open: at some rank. If not, check its refusals, and forget it.
        """
        name, success = self.decided.get(room, ("", False))
        against = self.failed.get(room, {})
        if success and against:
            self.complaints.append(f"room {room}: {name} has succeeded, and "
                                   f"{', '.join(sorted(against))} failed")
        if not is_open:
            if load.request(room).abort is None:
                self._check_refusals(room)
            for of_rooms in (self.decided, self.failed, self.sent, self.left, self.killed):
                of_rooms.pop(room, None)

    def _check_refusals(self, room: int) -> None:
        """Rule 1 of spec/handoff/drain.py: a drain fails no request that was taken before it.

        The rank that drains may refuse a room that had failed there before: to it, that is a new
        room. Its message about the failure comes through another pipe, maybe later.
        """
        failed, killed = self.failed.get(room, {}), self.killed.get(room, set())
        for name, ended in failed.items():
            over = killed | {other for other, its in failed.items()
                             if DRAINS not in its.reason and its.at < ended.at + NOTICED_S}
            if DRAINS in ended.reason and not any(other in ended.reason for other in over):
                others = (f"; {other} {its.at - ended.at:+.1f} s: {its.reason}"
                          for other, its in failed.items() if other != name)
                self.complaints.append(f"{name}, room {room}: {ended.reason}{''.join(others)}")
