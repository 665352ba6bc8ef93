"""The load of a drill, the result of each rank, and the start of its process."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from math import gcd
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from examples.sglang_handoff import without_torchvision

LOOPBACK: Final = "127.0.0.1"
START_S: Final = 120.0
HEADS: Final = 8  # of the model
STATE_ITEMS: Final = {"swa": 2, "mamba": 1, "dsa": 3}  # of one request
# SGLang's own backends need these settings on one machine without a GPU.
ENVIRONMENT: Final = {
    "MOONCAKE_PROTOCOL": "tcp", "MC_FORCE_TCP": "1",
    "MC_LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True, slots=True)
class Seat:
    """A rank of one of the servers. number: within its server."""

    side: str
    number: int = 0
    dp: int = 0
    cp: int = 0
    tp: int = 0
    pp: int = 0

    def __str__(self) -> str:
        return f"{self.side}{self.number}"


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a drill. abort_every: one of the sides aborts each n-th room.

    prefix: decode has cached up to so many pages of a request. latent: every rank of a tensor
    parallelism holds the same KV, as under MLA. query: rooms run on ranks that only the registry
    knows. named, placed: by the room modulo their length, the rank that the request names, and the
    rank that gets it. environment: settings of SGLang: side, name, value. drafts: the sides
    that have a draft model, for speculative decoding. warm: so many of the requests come first and
    do not count. timed: pages are neither filled nor compared, so only the backend is timed.
    long_every: each n-th room is sent in `chunks` chunks, and the others in one (0: all are).
    page_tokens: of prefill and of decode, if they are not those of the request's pages: then parts
    of pages are handed over, and decode's cached prefix counts pages of decode.
    hosts: the addresses of prefill and of decode, for SGLang's SGLANG_HOST_IP. spare: a rank has
    memory for so many times the requests that are under way, for one side may end them first.
    switched: each rank has the other role first, and changes it as SGLang does at run time.
    """

    backend: str = "pdproto"
    requests: int = 60
    in_flight: int = 8
    layers: int = 4
    page_bytes: int = 4_096
    pages: int = 4  # of a request
    port: int = 18_800
    abort_every: int = 0
    chunks: int = 1
    long_every: int = 0
    prefix: int = 0
    states: tuple[str, ...] = ()
    latent: bool = False
    drafts: tuple[str, ...] = ()
    query: bool = False
    named: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    environment: tuple[tuple[str, str, str], ...] = ()
    prefill_tp: int = 1
    decode_tp: int = 1
    pp: int = 1
    decode_pp: int = 1
    dp: int = 1
    cp: int = 1
    engine: str = "tcp"
    pinned: bool = False
    warm: int = 0
    timed: bool = False
    page_tokens: tuple[int, int] | None = None
    hosts: tuple[str, str] = (LOOPBACK, LOOPBACK)
    spare: int = 2
    switched: bool = False

    @property
    def seats(self) -> tuple[Seat, ...]:
        places = product(range(self.dp), range(self.cp), range(self.prefill_tp), range(self.pp))
        prefill = [Seat("prefill", n, *place) for n, place in enumerate(places)]
        stages = product(range(self.decode_tp), range(self.decode_pp))
        return *prefill, *(Seat("decode", n, tp=tp, pp=pp) for n, (tp, pp) in enumerate(stages))

    @property
    def tokens(self) -> int:
        """Tokens of a request's page: SGLang's pool of sparse attention wants 64."""
        return 64 if "dsa" in self.states else 16

    def page(self, side: str) -> int:
        """Tokens of a page in the pools of a server."""
        return self.page_tokens[side == "decode"] if self.page_tokens else self.tokens

    @property
    def request_tokens(self) -> int:
        """Tokens of a request."""
        return self.pages * self.tokens

    def pages_of(self, side: str) -> int:
        """Pages that a server has of a request."""
        return -(-self.request_tokens // self.page(side))

    def tp(self, side: str) -> int:
        return self.prefill_tp if side == "prefill" else self.decode_tp

    def stages(self, side: str) -> int:
        return self.pp if side == "prefill" else self.decode_pp

    def state_rows(self, name: str) -> int:
        """Items of a state in a pool."""
        return self.slots * STATE_ITEMS[name]

    def pool_pages(self, side: str) -> int:
        return self.pages_of(side) * self.slots

    @property
    def slots(self) -> int:
        """Requests for which a rank has memory."""
        return self.spare * self.in_flight

    def host_of(self, side: str) -> str:
        """The address of a server."""
        return self.hosts[side == "decode"]

    def cached(self, room: int) -> int:
        """The pages of the room that decode has cached, of decode's size."""
        return room % (self.prefix + 1)

    def runs(self, room: int) -> int:
        """The data-parallel rank of prefill that the router has chosen."""
        if self.placed:
            return self.placed[room % len(self.placed)]
        return (room + 1 if self.query else room) % self.dp

    def names(self, room: int) -> int | None:
        """The data-parallel rank that the request names."""
        return self.named[room % len(self.named)] if self.named else None

    def chunks_of(self, room: int) -> int:
        """The chunks in which prefill sends the room."""
        return self.chunks if not self.long_every or room % self.long_every == 0 else 1

    def who_aborts(self, room: int) -> str:
        if not self.abort_every or room % self.abort_every:
            return ""
        return ("prefill", "decode")[room // self.abort_every % 2]


@dataclass(slots=True)
class Outcome:
    """The result of one rank. latencies: by room, seconds from the receiver's start to Success.
    landed: the moment of each Success, on time.monotonic's clock. processor_s: seconds of processor
    time, of all work of its process from its first request on.
    """

    succeeded: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    wrong: list[int] = field(default_factory=list)
    latencies: dict[int, float] = field(default_factory=dict)
    landed: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    processor_s: float = 0.0
    left: dict[str, float] = field(default_factory=dict)


def live(seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
    """The life of one rank's process. Only these processes import SGLang, which takes long."""
    told = {"SGLANG_HOST_IP": load.host_of(seat.side), "PDPROTO_ENGINE": load.engine}
    if load.page_tokens:
        told["PDPROTO_PAGE_TOKENS"] = str(gcd(*load.page_tokens))
    told |= {name: value for side, name, value in load.environment if side == seat.side}
    for name, value in {**ENVIRONMENT, **told}.items():
        os.environ[name] = value
    if load.query:
        os.environ["SGLANG_DISAGGREGATION_FORCE_QUERY_PREFILL_DP_RANK"] = "1"
    if load.pinned:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[seat.side == "decode"]})
    without_torchvision.install()
    with suppress(KeyboardInterrupt), TemporaryDirectory(prefix="pdproto-model-") as folder:
        import_module("examples.sglang_handoff.pools").write_config(load, Path(folder))
        ranks = import_module("examples.sglang_handoff.ranks")
        getattr(ranks, seat.side)(seat, load, Path(folder), pipe)
