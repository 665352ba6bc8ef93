"""The rooms of a study, on a server of two data-parallel ranks (M2.4).

All requests run on the first of the ranks. By the rule, decode computes the rank of each. Where
queries are forced, prefill publishes every room at the registry, and decode queries it before it
opens a hand-over. Both wait for the registry's answer on their scheduler's loop.
"""

from dataclasses import dataclass
from typing import Final

from pdproto.node.rooms import DecodeRooms, PrefillRooms, RoomLife
from pdproto.registry.client import RegistryClient
from pdproto.registry.lives import ask_again, post
from pdproto.registry.wire import Registration

RANKS: Final = 2
GENERATION: Final = 1  # no room is used twice


@dataclass(frozen=True, slots=True)
class Routing:
    """registry: where it listens, host:port. It serves one study, and has one answer for all."""

    registry: str
    force_query: bool


class PublishedRooms:
    """The rooms that the prefill rank publishes before it serves them."""

    def __init__(self, routing: Routing) -> None:
        self._client: Final = RegistryClient(routing.registry)
        for rank in range(RANKS):
            self._client.register(Registration(
                attn_tp_size=1, attn_tp_rank=0, attn_dp_size=RANKS, attn_dp_rank=rank,
                rank_ip="127.0.0.1", rank_port=1 + rank, force_query=routing.force_query))
        self._rooms: Final = PrefillRooms(0, RANKS, publishes=routing.force_query)

    def put(self, room: int) -> int:
        """Publish a room that the router put here. Returns the number of calls to the registry.

        Raises RuntimeError for a room that decode would look for elsewhere.
        """
        outcome = self._rooms.put((room, GENERATION))
        if outcome.failure is not None:
            raise RuntimeError(outcome.failure)
        return post(self._client, outcome.sent)

    def close(self) -> None:
        self._client.close()


class SoughtRooms:
    """The rooms that the decode rank looks up before it opens a hand-over."""

    def __init__(self, routing: Routing) -> None:
        self._client: Final = RegistryClient(routing.registry)
        self._rooms: DecodeRooms | None = None
        self.asked = 0

    def found(self, room: int) -> bool:
        """Whether the rank of the room is known; queries the registry if it must."""
        life: RoomLife = room, GENERATION
        if self._rooms is None:  # by now both ranks have registered: requests come to them
            server = self._client.look_up_all().server
            self._rooms = DecodeRooms(RANKS, follows_rule=server.follow_bootstrap_room)
        if life not in self._rooms.asking:
            self._rooms.want(life)
        if self._rooms.asking:
            ask_again(self._rooms, self._client)
            self.asked += 1
        return self._rooms.rank_of(life) == 0

    def close(self) -> None:
        self._client.close()
