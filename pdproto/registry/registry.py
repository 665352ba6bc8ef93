"""The registry: the addresses of prefill ranks, and the data-parallel rank of each room.

Two machines decide, each by its table: one about registrations (spec/handoff/registry.py), one
about rooms (rooms.py). This module turns requests into messages, steps into answers, and silence
into an event. It has no socket, and gets the time as an argument.

A registration names a run of a process. A client that gives no incarnation (SGLang's own) gets one
here, which stays the same while its address does. It promises no signs of life, so it never counts
as silent.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from pdproto.registry.leaving import Leaving
from pdproto.registry.rooms import Begun, Fired, Limits, RoomBook, fired, taken
from pdproto.registry.wire import (
    OURS,
    Located,
    Lookup,
    Rank,
    RankAddress,
    RefusedError,
    Registration,
    Run,
    Silent,
    Topology,
)
from pdproto.runtime.limits import EARLY_GOODBYES_MAX
from pdproto.runtime.store import SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import bootstrap, dp_rank, registry
from pdproto.spec.handoff.roles import Incarnation, Source

log = logging.getLogger("pdproto.registry")


@dataclass(slots=True)
class Recorded:
    """The data of a run of a rank, besides its entry in the table."""

    address: RankAddress
    heard: float  # when, of the last sign of life
    heard_at: int  # the change that it was
    promised: bool  # signs of life


class Server:
    """One prefill server, as its first rank described it."""

    def __init__(
        self, topology: Topology, limits: Limits, rows: Fired, traces: Mapping[str, SharedTrace]
    ) -> None:
        every = [
            Rank(*place) for place in product(
                range(topology.dp_size), range(topology.attn_cp_size),
                range(topology.attn_tp_size), range(topology.pp_size),
            )
        ]
        self.topology = topology
        self.ranks: Final = shared(registry.REGISTRY, (), {Source: every},
                                   trace=traces.get(registry.SYSTEM.name))
        self.rooms: Final = RoomBook(topology.dp_size, limits, rows,
                                     traces.get(dp_rank.SYSTEM.name))
        self.runs: Final[dict[Rank, dict[int, Recorded]]] = {rank: {} for rank in every}
        self.early: Final[dict[Rank, deque[int]]] = {rank: deque() for rank in every}
        self.refused: Final[dict[Rank, str]] = {}  # why, of those that have not come again
        self.leaving: Final = Leaving(rows)

    def is_current(self, rank: Rank, number: int) -> bool:
        """Whether this run is the current one of its rank. Its number comes first in the table's
        element, because runs are ordered by their numbers.
        """
        entry = self.ranks.value(bootstrap.entry, rank, (number, rank))
        return entry is bootstrap.Record.CURRENT

    def current(self, rank: Rank) -> int | None:
        """The number of the current run of this rank; None if there is none."""
        return next((one for one in self.runs[rank] if self.is_current(rank, one)), None)

    def end_run(self, rank: Rank, before: int | None) -> None:
        """Remove the rooms and the drain of the run that was current before, if it is not now."""
        if before is not None and before != self.current(rank):
            self.leaving.end(rank)
            self.rooms.end_run(rank.dp)

    def number(self, request: Registration) -> int:
        """The incarnation of the run: its own, or else a new one for each new address."""
        if request.incarnation is not None:
            return request.incarnation
        runs = self.runs[request.rank]
        here = request.rank_ip, request.rank_port
        for number, run in runs.items():
            same = (run.address.rank_ip, run.address.rank_port) == here
            if same and self.is_current(request.rank, number):
                return number
        return max(runs, default=0) + 1

    def silent(self, now: float, silent_s: float) -> Iterator[Silent]:
        """The runs that promised signs of life and have sent none for `silent_s` seconds."""
        for rank, runs in self.runs.items():
            for number, run in runs.items():
                is_silent = run.promised and now - run.heard > silent_s
                if is_silent and self.is_current(rank, number):
                    yield Silent(rank, number, run.heard_at)

    def forget_before(self, rank: Rank, number: int) -> None:
        """Forget the earlier runs of a rank: the later one that is current excludes them."""
        earlier = [*(other for other in self.runs[rank] if other != number), *self.early[rank]]
        for other in earlier:
            self.runs[rank].pop(other, None)
            self.ranks.forget(Incarnation, (other, rank))
        self.early[rank].clear()


class Registry:
    """The registry of one prefill server. All times are seconds of one monotonic clock.

    traces: by the name of a system, the trace that records the rows of its machine.
    """

    def __init__(
        self, limits: Limits | None = None, traces: Mapping[str, SharedTrace] | None = None
    ) -> None:
        self.limits: Final = limits or Limits()
        self._traces: Final = traces or {}
        self.rows: Final[Fired] = Counter()
        self.changes = 0  # that were applied, by those who count them (changes.py)
        self.server: Server | None = None

    def register(self, request: Registration, now: float) -> None:
        """Record a rank. Raises RefusedError if it contradicts earlier registrations."""
        request.check()
        server, rank = self._server_for(request), request.rank
        number, before = server.number(request), server.current(rank)
        self._record(server, rank, number)
        server.end_run(rank, before)
        server.rooms.enroll(rank.dp, publishes=request.publishes)
        server.refused.pop(rank, None)
        server.topology = server.topology.completed(request.topology)
        server.forget_before(rank, number)
        server.runs[rank][number] = Recorded(request.at(number), now, self.changes, request.beats)
        if request.leaving is not None:
            server.leaving.begin(rank, request.leaving)
        self.complete()

    def _record(self, server: Server, rank: Rank, number: int) -> None:
        """Give the table a registration. Raises RefusedError if the table rejects the run."""
        step = taken(server.ranks, self.rows, bootstrap.register, rank, (number, rank))
        if not any(message is bootstrap.recorded for message, _ in step.sent):
            raise self._refusal(server, step, rank, number)

    @staticmethod
    def _refusal(server: Server, step: SharedStep, rank: Rank, number: int) -> RefusedError:
        """The refusal of a run whose number does not count, from the row that rejected it."""
        run = f"incarnation: {number} of {rank}"
        for message, about in step.sent:
            if message is bootstrap.outdated:
                _, _, (exceed, _) = about
                return RefusedError(409, f"{run} counts no more: register under one above {exceed}",
                                    exceed)
        other = server.runs[rank].get(server.current(rank) or 0)
        fix = f", {other.address}: end one of the two, or correct its rank" if other else ""
        return RefusedError(409, f"{run} does not count while another run of it is registered{fix}")

    def keep_alive(self, request: Run, now: float) -> None:
        """Note a sign of life: a registration without its data. Raises RefusedError if this run
        has not registered here (404), or was removed (409).
        """
        server, rank, number = self._known(request.rank), request.rank, request.incarnation
        if number not in server.runs[rank]:
            raise RefusedError(404, f"incarnation: {number} of {rank} is not recorded")
        self._record(server, rank, number)
        run = server.runs[rank][number]
        run.heard, run.heard_at = now, self.changes

    def deregister(self, request: Run) -> None:
        """Remove a run. Raises RefusedError for a rank that this server does not have."""
        server, rank = self._known(request.rank), request.rank
        if request.incarnation < max(server.runs[rank], default=0):
            return  # out and forgotten since a later run registered: its name must not come again
        before = server.current(rank)
        taken(server.ranks, self.rows, bootstrap.goodbye, rank, (request.incarnation, rank))
        server.end_run(rank, before)
        early = server.early[rank]
        if request.incarnation not in server.runs[rank] and request.incarnation not in early:
            early.append(request.incarnation)
            if len(early) > EARLY_GOODBYES_MAX:
                server.ranks.forget(Incarnation, (early.popleft(), rank))

    def owner(self, rank: Rank) -> str | None:
        """The name of the node that is registered as this rank; None without one."""
        server = self.server
        number = None if server is None or rank not in server.runs else server.current(rank)
        return None if server is None or number is None else server.runs[rank][number].address.name

    def owners(self, dp_rank: int) -> list[str]:
        """The names of the nodes that are registered as ranks of this data-parallel rank."""
        ranks = [] if self.server is None else [r for r in self.server.runs if r.dp == dp_rank]
        return [name for rank in ranks if (name := self.owner(rank)) is not None]

    def look_up(self, rank: Rank) -> RankAddress:
        """The address of a rank. Raises RefusedError: 404 for no such rank, 503 if any is missing,
        or if it drains.
        """
        server = self._known(rank)
        address = self._looked_up(server, rank, None)
        if address is None:
            raise RefusedError(503, self.missing())
        server.leaving.listed([rank])
        return address

    def _looked_up(self, server: Server, rank: Rank, question: Lookup | None) -> RankAddress | None:
        sink, handover = (None, None) if question is None else (question.sink, question.handover)
        step = taken(server.ranks, self.rows, bootstrap.lookup, sink, handover, rank)
        for message, arguments in step.sent:
            if message is bootstrap.located:
                number, _ = arguments[3]
                return server.runs[rank][number].address
        return None

    def info(self) -> dict[str, Any]:
        """The properties of the server that decode needs, in SGLang's fields only: SGLang's client
        rejects others. Raises RefusedError (503) until the server is ready.
        """
        server = self.server
        if server is None or not self.ready:
            raise RefusedError(503, self.missing())
        topology = server.topology
        shown = {name: getattr(topology, name) for name in topology.__struct_fields__}
        return {
            **{name: value for name, value in shown.items() if name not in OURS},
            "follow_bootstrap_room": server.rooms.keeps_rule,
        }

    def directory(
        self, question: Lookup | None = None, room: int | None = None
    ) -> dict[str, Any]:
        """The server, with the addresses of all its ranks that the room finds, or of those of the
        question. Raises RefusedError: 503 if a rank of the server is missing, or drains and cannot
        be left out; 404 for a rank that the server does not have, 425 if no rank has registered.
        """
        server = self.server
        if server is None:
            raise RefusedError(425, self.missing())
        asked = dict.fromkeys(server.runs if question is None else question.ranks)
        for rank in asked.keys() - server.runs.keys():
            raise RefusedError(404, f"there is no {rank}")
        found = {rank: self._looked_up(server, rank, question) for rank in asked}
        if None in found.values():
            raise RefusedError(503, self.missing())
        listed = server.leaving.listed(found, room, whole=question is not None)
        ranks = [Located(*rank, address) for rank in listed if (address := found[rank])]
        ours = {name: getattr(server.topology, name) for name in OURS}
        return {"server": {**self.info(), **ours}, "ranks": ranks}

    @property
    def rooms(self) -> RoomBook:
        """The rooms of the server. Raises RefusedError (503) before any rank has registered."""
        return self._known_server().rooms

    @property
    def ready(self) -> bool:
        """Whether every rank is registered, and all agree on whether rooms are published."""
        server = self.server
        return (
            server is not None
            and server.ranks.value(bootstrap.ready) is bootstrap.Ready.READY
            and server.rooms.keeps_rule is not None
        )

    def require_open(self) -> None:
        """Raise RefusedError (503) unless the registry is ready, and names ranks to new requests.
        """
        if self.server is None or not self.ready:
            raise RefusedError(503, self.missing())
        self.server.leaving.listed(self.server.runs)

    @property
    def draining_ranks(self) -> int:
        """The number of ranks that drain."""
        return 0 if self.server is None else len(self.server.leaving)

    def missing(self) -> str:
        """Why the registry is not ready."""
        server = self.server
        if server is None:
            return "no rank has registered"
        away = [rank for rank in server.runs if not server.ranks.value(bootstrap.present, rank)]
        if not away:
            return "every rank is there, and the registry is not ready yet: ask again"
        first = next((rank for rank in away if rank in server.refused), away[0])
        why = f", which was refused: {server.refused[first]}" if first in server.refused else ""
        return f"{len(away):,} of {len(server.runs):,} ranks are missing, {first} first{why}"

    def tick(self, now: float) -> None:
        """Remove silent ranks, and end old rooms and questions."""
        for silent in self.silent(now):
            self.strike_out(silent)
        self.end_lives(self.old_lives(now))

    def silent(self, now: float) -> list[Silent]:
        """The runs that have been silent for too long."""
        server = self.server
        return [] if server is None else [*server.silent(now, self.limits.silent_s)]

    def strike_out(self, silent: Silent) -> None:
        """Remove a silent run, unless it has given a sign of life meanwhile."""
        server, rank, number = self._known(silent.rank), silent.rank, silent.incarnation
        run = server.runs[rank].get(number)
        if run is None or run.heard_at != silent.heard_at or not server.is_current(rank, number):
            return
        log.warning("%s has given no sign of life: struck out", rank)
        taken(server.ranks, self.rows, bootstrap.suspected, rank, (number, rank))
        fired(server.ranks, self.rows, "expire", p=rank, e=(number, rank))
        server.end_run(rank, number)

    def old_lives(self, now: float) -> list[Begun]:
        """The lives of rooms that have been kept for too long."""
        return [] if self.server is None else self.server.rooms.old(now)

    def end_lives(self, lives: Iterable[Begun]) -> None:
        """End and forget these lives of rooms."""
        if self.server is not None:
            self.server.rooms.end(lives)

    @property
    def open_rooms(self) -> int:
        """The number of lives of rooms that are kept."""
        return 0 if self.server is None else len(self.server.rooms)

    @property
    def present_ranks(self) -> int:
        """The number of ranks that are registered."""
        server = self.server
        if server is None:
            return 0
        return sum(server.ranks.value(bootstrap.present, rank) is True for rank in server.runs)

    def new_server(self, topology: Topology) -> Server:
        """A server without ranks, as this registry would record it."""
        return Server(topology, self.limits, self.rows, self._traces)

    def complete(self) -> None:
        """Be ready if every rank is there."""
        if self.server is not None:
            fired(self.server.ranks, self.rows, "complete")

    def hear_all(self, now: float) -> None:
        """Count every run as heard now: this registry could not hear them."""
        for runs in {} if self.server is None else self.server.runs.values():
            for run in runs.values():
                run.heard = now

    def _server_for(self, request: Registration) -> Server:
        """The server of the rank; a new one if there is none, or if all its ranks are gone.
        """
        server, topology = self.server, request.topology
        if server is None:
            server = self.server = self.new_server(topology)
        field = server.topology.mismatch(topology)
        is_mismatched = server.rooms.is_mismatched(publishes=request.publishes)
        if (field is not None or is_mismatched) and not self.present_ranks:
            server = self.server = self.new_server(topology)
        elif field is not None:
            ours, theirs = getattr(server.topology, field), getattr(topology, field)
            raise RefusedError(
                409 if field in OURS else 400,
                f"{field}: {request.rank} says {theirs!r}, and the ranks before it {ours!r}",
            )
        elif is_mismatched and server.rooms.enroll(request.rank.dp, publishes=request.publishes):
            raise self._mismatch(server, request)
        return server

    @staticmethod
    def _mismatch(server: Server, request: Registration) -> RefusedError:
        """The refusal of a rank that publishes its rooms while the ranks before it do not, or the
        reverse.
        """
        said = f"{request.force_query} with load_balance_method {request.load_balance_method!r}"
        reason = (f"force_query: {request.rank} says {said}, and the ranks before it publish "
                  f"{'no rooms' if request.publishes else 'their rooms'}: set it alike on all")
        server.refused[request.rank] = reason
        return RefusedError(409, reason)

    def _known_server(self) -> Server:
        if self.server is None:
            raise RefusedError(503, self.missing())
        return self.server

    def _known(self, rank: Rank) -> Server:
        server = self._known_server()
        if rank not in server.runs:
            raise RefusedError(404, f"there is no {rank}")
        return server
