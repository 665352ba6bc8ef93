"""The whole state of a registry as data, so that a registry that starts later becomes like it.

The tables' cells are not copied: a new registry gets the messages that lead to them.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from pdproto.registry.registry import Recorded, Registry, Server
from pdproto.registry.rooms import KeptRooms
from pdproto.registry.wire import Rank, RankAddress, Topology
from pdproto.spec.handoff import bootstrap


class KeptRun(Struct, frozen=True):
    """One run of a rank. current: otherwise it is struck out. leaving: the rooms that it has, if it
    drains.
    """

    rank: Rank
    number: int
    address: RankAddress
    heard_at: int
    promised: bool
    current: bool
    leaving: tuple[int, ...] | None = None


class KeptServer(Struct, frozen=True):
    """The prefill server. early: numbers that said goodbye before they registered. refused: with
    the reasons.
    """

    topology: Topology
    runs: tuple[KeptRun, ...]
    early: tuple[tuple[Rank, tuple[int, ...]], ...]
    refused: tuple[tuple[Rank, str], ...]
    rooms: KeptRooms


class Kept(Struct, frozen=True):
    """A registry after so many changes. applied: the last entry of each writer in it (log.py)."""

    changes: int
    applied: dict[str, int]
    server: KeptServer | None


_KEPT: Final = msgspec.json.Decoder(Kept)


def encoded(registry: Registry, applied: dict[str, int]) -> bytes:
    """The state of a registry as JSON."""
    server = registry.server
    return msgspec.json.encode(
        Kept(registry.changes, applied, None if server is None else _kept(server)))


def decoded(body: bytes) -> Kept:
    """The state of `encoded`. Raises msgspec.MsgspecError."""
    return _KEPT.decode(body)


def restore(registry: Registry, kept: Kept, now: float) -> None:
    """Give a registry this state, in place of its own. Every run counts as heard now."""
    registry.changes = kept.changes
    registry.server = None
    if kept.server is not None:
        registry.server = server = registry.new_server(kept.server.topology)
        _restore(server, kept.server, now)
        registry.complete()


def _kept(server: Server) -> KeptServer:
    runs = tuple(
        KeptRun(rank, number, run.address, run.heard_at, run.promised,
                (current := server.is_current(rank, number)),
                server.leaving.rooms(rank) if current else None)
        for rank, runs in server.runs.items() for number, run in sorted(runs.items()))
    early = tuple((rank, tuple(numbers)) for rank, numbers in server.early.items() if numbers)
    return KeptServer(server.topology, runs, early, tuple(server.refused.items()),
                      server.rooms.kept())


def _restore(server: Server, kept: KeptServer, now: float) -> None:
    def tell(message: Any, rank: Rank, number: int) -> None:
        server.ranks.receive(message, rank, (number, rank))

    for run in kept.runs:
        tell(bootstrap.register, run.rank, run.number)
        if not run.current:
            tell(bootstrap.goodbye, run.rank, run.number)
        server.runs[run.rank][run.number] = Recorded(run.address, now, run.heard_at, run.promised)
        if run.leaving is not None:
            server.leaving.begin(run.rank, run.leaving)
    for rank, numbers in kept.early:
        for number in numbers:
            tell(bootstrap.goodbye, rank, number)
            server.early[rank].append(number)
    server.refused.update(kept.refused)
    server.rooms.restore(kept.rooms, now)
