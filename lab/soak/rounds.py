"""A soak: rounds of faults, each followed by a rest in which everything must be released.

Rule 1: a soak has legs. Each leg has a cluster of its own, with one engine, and its processes end
        in order.
Rule 2: the state is kept after each rest, and after each leg.
"""

import os
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from lab.soak.books import Books
from lab.soak.chaos import Chaos
from lab.soak.cluster import SoakCluster
from lab.soak.memory import MemoryWatch, resident_bytes
from lab.soak.state import SoakSettings, SoakState
from pdproto.check.report.progress import Reporter
from pdproto.drill.children import ChildLostError

ROUND_S: Final = 20.0  # of faults, between two rests
REST_S: Final = 60.0  # after which all hand-overs must have ended, also on a busy machine
HEAR_S: Final = 0.02
BURST: Final = 8  # hand-overs begun at once: requests do not come to a server all at one moment
ROUTER: Final = "the router"
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only read
NO_SUCCESS: Final = "no hand-over has succeeded"

Make = Callable[[SoakSettings, str, Books], SoakCluster]


def run_soak(
    state: SoakState, *, quiet: bool, keep: Callable[[], None] = lambda: None,
    stop_after: float | None = None, make: Make = SoakCluster,
) -> None:
    """Run a soak from its state on: to its end, to a complaint, or for `stop_after` seconds.

    keep: called when the state has changed. make: makes the cluster of a leg. Raises
    ChildLostError if a cluster does not start.
    """
    began = monotonic()
    state.cut_off += state.runs
    state.parts += 1
    state.runs = True
    keep()
    ends = inf if stop_after is None else began + stop_after
    memory = MemoryWatch(state.totals.routed)
    with Reporter(quiet=quiet) as reporter:
        while not state.is_over and monotonic() < ends:
            Leg(state, make, memory, keep, lambda line: reporter.line(line, monotonic() - began)
                ).run(ends)
    state.totals.complaints += memory.keep((), state.growth)
    if state.is_over and not state.totals.succeeded:
        state.totals.complaints.append(NO_SUCCESS)
    state.runs = False
    keep()


def _shared_memory_names() -> set[str]:
    """The names of pdproto's shared memory segments on this machine."""
    return {name for name in os.listdir(SHARED_MEMORY) if "pdproto" in name}


class Leg:
    """One leg of a soak: a cluster, under faults and at rest in turn. tell: shows progress."""

    def __init__(
        self, state: SoakState, make: Make, memory: MemoryWatch, keep: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        self._state: Final = state
        self._memory: Final = memory
        self._keep: Final = keep
        self._tell: Final = tell
        self._number: Final = state.leg
        self._engine: Final = state.engine
        self._first: Final = state.totals.routed
        self._messages: Final = Counter(state.messages)
        self._shared_memory: Final = _shared_memory_names()
        self._books: Final = Books(deepcopy(state.totals))
        self._cluster: Final = make(state.settings, self._engine, self._books)
        spared = state.spared(self._cluster.sources), state.spared(self._cluster.sinks)
        self._chaos: Final = Chaos(
            self._cluster, f"{state.settings.seed} {state.parts} {self._number}",
            Counter(state.faults), {name for name in spared if name is not None})
        self._noted = monotonic()

    def run(self, ends: float) -> None:
        """Run it to its end, or until this time, and close the cluster. The state stays that of the
        last rest if the soak is interrupted.
        """
        try:
            self._run(ends)
        except ChildLostError as error:
            self._books.complaints.append(str(error))
        except BaseException:
            self._cluster.close()
            raise
        self._close()

    def _run(self, ends: float) -> None:
        cluster, state = self._cluster, self._state
        while self._books.totals.routed == self._first:  # until all processes have started
            cluster.route(1)
            cluster.hear(HEAR_S)
        self._noted = monotonic()
        leg_ends = self._noted + (self._number + 1) * state.settings.leg - state.seconds
        known = state.known
        while not (len(self._books.complaints) > known or state.is_over or state.leg != self._number
                   or monotonic() > ends):
            until = min(monotonic() + ROUND_S, ends)
            if state.settings.handoffs is None:
                until = min(until, leg_ends)
            self._round(until)
            self._chaos.end()
            self._rest()
            self._note()

    def _round(self, until: float) -> None:
        """Hand over under faults until this time, or until the leg has all its hand-overs."""
        cluster, settings = self._cluster, self._state.settings
        last = inf if settings.handoffs is None else min(
            settings.handoffs, (self._number + 1) * settings.leg)
        while (now := monotonic()) < until and self._books.totals.routed < last:
            cluster.route(min(BURST, last - self._books.totals.routed))
            cluster.hear(HEAR_S)
            self._chaos.turn(now)
            self._tell(self._line())

    def _rest(self) -> None:
        """Let every decode rank start once more, and wait until all memory has been released."""
        cluster, ends = self._cluster, monotonic() + REST_S
        waiting, held = set(cluster.sinks), ["not asked yet"]
        while held and monotonic() < ends:
            cluster.greet(waiting)
            cluster.hear(HEAR_S)
            self._tell(self._line())
            if not cluster.unfinished and not waiting:
                held = cluster.ask()
        complaints, unfinished = self._books.complaints, cluster.unfinished
        cluster.ask_for_stacks(unfinished)
        complaints += [f"{name} has taken no request" for name in waiting]
        complaints += [f"{name} {told}" for name, told in unfinished.items()]
        complaints += cluster.ask() if waiting or unfinished else held
        complaints += [f"{member.name}: {value:g} {what}" for member in cluster.members.values()
                       if member.told is not None for what, value in member.told.faults.items()]
        self._watch_memory()

    def _watch_memory(self) -> None:
        """Take a sample of each process, and judge the processes that have ended."""
        routed, memory = self._books.totals.routed, self._memory
        memory.sample("router", ROUTER, routed - memory.first, resident_bytes(os.getpid()))
        names = {ROUTER}
        for kind, process, taken, resident in self._cluster.memory():
            name = f"{process} of leg {self._number}"
            memory.sample(kind, name, routed - self._first if taken is None else taken, resident)
            names.add(name)
        self._books.complaints.extend(memory.keep(names, self._state.growth))

    def _note(self) -> None:
        """Have the state of this rest kept."""
        state, now = self._state, monotonic()
        before, state.totals = state.totals.routed, self._books.summed()
        state.engines[self._engine] = (
            state.engines.get(self._engine, 0) + state.totals.routed - before)
        state.faults = dict(self._chaos.counts)
        state.messages = dict(self._messages + Counter(self._cluster.net("counts")))
        state.rests += len(state.totals.complaints) <= state.known
        state.seconds += now - self._noted
        self._noted = now
        self._keep()

    def _line(self) -> str:
        totals, state = self._books.totals, self._state
        faults = ", ".join(f"{count} {what}" for what, count in sorted(self._chaos.counts.items()))
        return (f"{totals.routed:,} hand-overs, {totals.succeeded:,} right; {self._engine}; "
                f"{faults or 'no fault'}; {state.rests} times at rest, "
                f"{len(totals.complaints)} complaints")

    def _close(self) -> None:
        """End all processes, complain about resources that they have left, and have the state kept.
        """
        complaints = self._books.complaints
        for name, left in self._cluster.close().items():
            complaints += [f"{name} has ended with {count} {what} left"
                           for what, count in left.items()]
        complaints += [f"{name} is left in {SHARED_MEMORY}"
                       for name in sorted(_shared_memory_names() - self._shared_memory)]
        complaints += self._memory.keep((ROUTER,), self._state.growth)
        self._state.totals = self._books.summed()
        self._state.seconds += monotonic() - self._noted
        self._keep()
