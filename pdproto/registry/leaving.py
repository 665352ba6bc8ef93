"""The ranks that drain: the requests that such a rank has find it in the registry, and no other.

The table decides (REGISTRY in spec/handoff/drain.py). A request is a room. Each run that drains has
a machine, made when the drain begins, with the rooms that the run has then: before that, it would
name the run to every room.
"""

from collections.abc import Collection, Iterable
from typing import Final

from pdproto.registry.rooms import Fired, taken
from pdproto.registry.wire import Rank, RefusedError
from pdproto.runtime.store import Shared
from pdproto.spec.handoff import drain as tables


class Leaving:
    """The ranks of one server whose current runs drain. rows: counts those that fire."""

    def __init__(self, rows: Fired) -> None:
        self._rows: Final = rows
        self._machines: Final[dict[Rank, Shared]] = {}
        self._rooms: Final[dict[Rank, dict[int, None]]] = {}

    def __len__(self) -> int:
        """The number of ranks that drain."""
        return len(self._machines)

    def begin(self, rank: Rank, rooms: Iterable[int]) -> None:
        """The run of the rank drains, and has these rooms. A second call has no effect."""
        machine = self._machines.setdefault(rank, Shared(tables.REGISTRY, ()))
        found = (room for room in rooms if self._names(machine, room))
        self._rooms.setdefault(rank, {}).update(dict.fromkeys(found))
        taken(machine, self._rows, tables.leave)

    def end(self, rank: Rank) -> None:
        """The run of the rank is gone, if it drained."""
        self._machines.pop(rank, None)
        self._rooms.pop(rank, None)

    def rooms(self, rank: Rank) -> tuple[int, ...] | None:
        """The rooms that the rank has; None if it does not drain."""
        return tuple(self._rooms[rank]) if rank in self._rooms else None

    def listed(
        self, ranks: Collection[Rank], room: int | None = None, *, whole: bool = False
    ) -> list[Rank]:
        """Those of the ranks that are named to this room, or to a new request if it is None.

        A sink needs every rank of a data-parallel rank, so none of these is named where one is not.
        whole: all ranks are wanted. Raises RefusedError (503) if there are none, or not all of
        these.
        """
        struck = {rank.dp: rank for rank, machine in self._machines.items()
                  if not self._names(machine, room)}
        found = [rank for rank in ranks if rank.dp not in struck]
        if not found or (whole and len(found) < len(ranks)):
            first = next(struck[rank.dp] for rank in ranks if rank.dp in struck)
            raise RefusedError(503, f"{first} drains, and takes no new request")
        return found

    def _names(self, machine: Shared, room: int | None) -> bool:
        step = taken(machine, self._rows, tables.look_up, room)
        return any(message is tables.found for message, _ in step.sent)
