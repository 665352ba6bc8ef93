"""What it costs to publish and ask for every room (force-query), against the rule (M2.4).

    python -m tests.bench.bench_registry

Both sides and the registry run in one process and speak over loopback HTTP, so a request has the
price of a request and no network. Prints, for each way, rooms a second, the median time from the
request to the known rank, and the number of HTTP requests a room.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final

from pdproto.node.rooms import DecodeRooms, PrefillRooms
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.lives import ask_again, post
from pdproto.registry.wire import Registration
from pdproto.runtime.store import AnyMessage, Shared
from pdproto.spec.handoff import dp_rank, routing
from pdproto.spec.handoff.roles import Life

RANKS: Final = 8
ROOMS: Final = 2_000
BATCH: Final = 64
EVENTS: Final = 50_000


@dataclass(slots=True)
class Sides:
    """A prefill server, a decode node and the requests that they have made."""

    client: RegistryClient
    prefill: list[PrefillRooms]
    decode: DecodeRooms
    requests: int = 0

    def publish(self, room: int) -> None:
        """The router puts the room on its rank."""
        sent = self.prefill[room % RANKS].put((room, 1)).sent
        self.requests += post(self.client, sent)

    def resolve(self, rooms: range) -> None:
        """Decode learns where the rooms run."""
        for room in rooms:
            self.decode.want((room, 1))
        if self.decode.asking:
            ask_again(self.decode, self.client)
            self.requests += 1
        for room in rooms:
            if self.decode.rank_of((room, 1)) != room % RANKS:
                raise AssertionError(f"room {room} was resolved wrongly")


def sides(server: RegistryServer, *, force_query: bool) -> Sides:
    client = RegistryClient(f"127.0.0.1:{server.port}")
    for rank in range(RANKS):
        client.register(Registration(
            attn_tp_size=1, attn_tp_rank=0, attn_dp_size=RANKS, attn_dp_rank=rank,
            rank_ip="127.0.0.1", rank_port=5000 + rank, incarnation=1, force_query=force_query,
        ))
    info = client.look_up_all().server
    prefill = [PrefillRooms(rank, RANKS, publishes=force_query) for rank in range(RANKS)]
    decode = DecodeRooms(info.dp_size, follows_rule=info.follow_bootstrap_room)
    return Sides(client, prefill, decode)


def measure(name: str, batch: int, *, force_query: bool) -> None:
    """Hand `ROOMS` rooms to both sides, `batch` at a time, and print one line."""
    with RegistryServer() as server:
        both = sides(server, force_query=force_query)
        times = []
        began = perf_counter()
        for first in range(0, ROOMS, batch):
            rooms = range(first, min(first + batch, ROOMS))
            start = perf_counter()
            for room in rooms:
                both.publish(room)
            both.resolve(rooms)
            times.append((perf_counter() - start) / len(rooms))
        total = perf_counter() - began
        both.client.close()
    print(  # noqa: T201 - this is a command
        f"{name:34} {ROOMS / total:10,.0f} rooms/s {median(times) * 1e6:10,.0f} us a room "
        f"{both.requests / ROOMS:8.2f} requests a room", flush=True,
    )


def events(name: str, event: Callable[[Shared, int], object], machine: Shared) -> None:
    """Print how many events of one kind the registry's own table takes in a second."""
    began = perf_counter()
    for life in range(EVENTS):
        event(machine, life)
    print(f"{name:34} {EVENTS / (perf_counter() - began):10,.0f} events/s", flush=True)  # noqa: T201


def told(message: AnyMessage) -> Callable[[Shared, int], object]:
    """The event that this message is about one life."""
    if message is routing.query:
        return lambda machine, life: machine.receive(message, life)
    return lambda machine, life: machine.receive(message, life, life % RANKS)


def main() -> int:
    """Print the lines."""
    measure("rule", 1, force_query=False)
    measure("force-query, room by room", 1, force_query=True)
    measure(f"force-query, asked {BATCH} at a time", BATCH, force_query=True)
    machine = Shared(dp_rank.REGISTRY, bounded={routing.Group: range(RANKS)})
    machine.receive(routing.enroll_published, 0)
    for message in (routing.publish, routing.query, routing.retire):
        events(f"table alone: {message}", told(message), machine)
    events("table alone: forget", lambda m, life: m.forget(Life, life), machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
