"""The messages between ranks, decode nodes and the registry over HTTP, as typed JSON.

The routes and fields are those that SGLang's decode side speaks (PUT and GET /route,
POST /register_dp_rank, POST /query_dp_ranks, GET /health), so that it needs no change. Our own
routes and fields are marked (ours); a client may leave them out.

Rule 1: any body is one of these, or a RefusedError that names the field.
Rule 2: every size that a client controls has a limit, and the limit is in its type.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from pdproto.net.hosts import is_wildcard, joined
from pdproto.runtime import versions
from pdproto.runtime.limits import (
    ASKED_ROOMS_MAX,
    CAPABILITIES_MAX,
    NAME_MAX,
    NESTED_MAX,
    RANKS_MAX,
    TOPOLOGY_SIZE_MAX,
)
from pdproto.runtime.wire import U63

FOLLOW_ROOM: Final = "follow_bootstrap_room"
Piece = TypeVar("Piece")
EXCEED: Final = "Pdproto-Exceed"  # the header that carries RefusedError.exceed
# The query of GET /route.
COORDINATES: Final = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
OURS: Final = ("version", "oldest", "capabilities")  # of a Topology; SGLang has no such fields

Size = Annotated[int, Meta(ge=1, le=TOPOLOGY_SIZE_MAX)]
Place = Annotated[int, Meta(ge=0, lt=TOPOLOGY_SIZE_MAX)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Word = Annotated[str, Meta(max_length=NAME_MAX)]
# Python and JSON Schema read this pattern alike: `$` alone would let Python pass a newline.
Host = Annotated[
    str, Meta(min_length=1, max_length=253, pattern=r"^[0-9A-Za-z_.:%-]+(?!\n)$")]
B = TypeVar("B", bound=Struct)


class RefusedError(Exception):
    """The registry refuses a request, with an HTTP status and the reason.

    exceed: the number that the next incarnation of the rank must exceed; None if the request was
    not refused for its incarnation (ours).
    """

    def __init__(self, status: int, reason: str, exceed: int | None = None) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.reason: Final = reason
        self.exceed: Final = exceed


class Rank(NamedTuple):
    """A prefill rank by its coordinates."""

    dp: int
    cp: int
    tp: int
    pp: int

    def __str__(self) -> str:
        return f"rank dp{self.dp} cp{self.cp} tp{self.tp} pp{self.pp}"


class Topology(Struct, frozen=True):
    """The properties that all ranks of one prefill server have in common, and decode needs."""

    attn_tp_size: Size
    attn_cp_size: Size
    dp_size: Size
    pp_size: Size
    page_size: U63 | None
    kv_cache_dtype: Word | None
    kv_layout: Word | None
    dsv41_spec_layout: Any
    enable_dsa_cache_layer_split: bool
    enable_kv_cache_sharding: bool
    prefill_http_port: Port | None
    decode_allocation_policy: Word
    version: U63 | None
    oldest: U63 | None
    capabilities: tuple[str, ...]

    def refusal(self, them: object, us: str) -> str | None:
        """The error if the server and this end have no version of the wire format in common."""
        if self.version is None:
            return None
        return versions.refusal(them, self.version, self.oldest, us)

    @property
    def ranks(self) -> int:
        """The number of ranks of the server."""
        return self.dp_size * self.attn_cp_size * self.attn_tp_size * self.pp_size

    def mismatch(self, other: "Topology") -> str | None:
        """The first field in which two ranks of one server may not differ, and do.

        None claims nothing. Each rank may have an HTTP port of its own: the first one counts.
        """
        for name in self.__struct_fields__:
            ours, theirs = getattr(self, name), getattr(other, name)
            silent = ours is None or theirs is None or name == "prefill_http_port"
            if name in ("oldest", "capabilities"):
                silent = self.version is None or other.version is None
            if not silent and ours != theirs:
                return name
        return None

    def completed(self, other: "Topology") -> "Topology":
        """This topology; its missing fields are taken from the other."""
        missing = {
            name: getattr(other, name)
            for name in self.__struct_fields__ if getattr(self, name) is None
        }
        if self.version is None:
            missing |= {"oldest": other.oldest, "capabilities": other.capabilities}
        return msgspec.structs.replace(self, **missing)


class Registration(Struct, frozen=True, kw_only=True):
    """The body of PUT /route: the coordinates, the address and the properties of a rank.

    From `incarnation` on the fields are ours. incarnation: the number of this run of the process,
    greater than those of its earlier runs (nanoseconds of the clock do, and the registry says which
    to exceed if a clock is behind); a rank that gives one promises signs of life. force_query:
    rooms are published even if they keep to the rule. version, oldest: the newest and the oldest
    version of the wire format that the rank speaks; capabilities: of the rank. None and () claim
    nothing. leaving: the rank drains, and has these rooms: only they find it from now on. None: it
    takes requests. A run that drains does so to its end.
    """

    attn_tp_size: Size
    attn_tp_rank: Place
    attn_cp_size: Size = 1
    attn_cp_rank: Place = 0
    attn_dp_size: Size = 1
    attn_dp_rank: Place = 0
    pp_size: Size = 1
    pp_rank: Place = 0
    system_dp_size: Size = 1
    system_dp_rank: Place = 0
    rank_ip: Host
    rank_port: Port
    page_size: U63 | None = None
    kv_cache_dtype: Word | None = None
    kv_layout: Word | None = None
    dsv41_spec_layout: Any = None
    load_balance_method: Word = FOLLOW_ROOM
    enable_dsa_cache_layer_split: bool = False
    enable_kv_cache_sharding: bool = False
    prefill_http_port: Port | None = None
    decode_allocation_policy: Word = "early"
    incarnation: U63 | None = None
    force_query: bool = False
    version: U63 | None = None
    oldest: U63 | None = None
    capabilities: Annotated[tuple[Word, ...], Meta(max_length=CAPABILITIES_MAX)] = ()
    name: Word = ""
    leaving: Annotated[tuple[U63, ...], Meta(max_length=ASKED_ROOMS_MAX)] | None = None

    @property
    def beats(self) -> bool:
        """Whether its client sends signs of life: one that gives an incarnation does."""
        return self.incarnation is not None

    def at(self, number: int) -> "RankAddress":
        """The address of this run. number: of the run."""
        return RankAddress(self.rank_ip, self.rank_port, number, self.name)

    @property
    def rank(self) -> Rank:
        """One data-parallel rank is that of attention, unless the system has several servers."""
        dp = self.attn_dp_rank if self.system_dp_size == 1 else self.system_dp_rank
        return Rank(dp, self.attn_cp_rank, self.attn_tp_rank, self.pp_rank)

    @property
    def publishes(self) -> bool:
        """Whether this rank publishes every room: queries are forced, or there is no rule."""
        return self.force_query or self.load_balance_method != FOLLOW_ROOM

    @property
    def topology(self) -> Topology:
        """The part of the registration that all ranks of the server share."""
        return Topology(
            self.attn_tp_size, self.attn_cp_size,
            self.attn_dp_size if self.system_dp_size == 1 else self.system_dp_size,
            self.pp_size, self.page_size, self.kv_cache_dtype, self.kv_layout,
            self.dsv41_spec_layout, self.enable_dsa_cache_layer_split,
            self.enable_kv_cache_sharding, self.prefill_http_port, self.decode_allocation_policy,
            self.version, self.oldest, tuple(sorted(self.capabilities)),
        )

    def check(self) -> None:
        """Raise RefusedError for values that do not go together.

        SGLang gives a system_dp_rank also to the ranks of its DP attention, where system_dp_size
        is 1. It means nothing there, and `rank` does not read it.
        """
        systems = ("system_dp",) if self.system_dp_size > 1 else ()
        for size in ("attn_tp", "attn_cp", "attn_dp", "pp", *systems):
            place, of = getattr(self, f"{size}_rank"), getattr(self, f"{size}_size")
            if place >= of:
                raise RefusedError(400, f"{size}_rank: {place} is not below {size}_size ({of})")
        if is_wildcard(self.rank_ip):
            raise RefusedError(400, f"rank_ip: {self.rank_ip} stands for every address of a host, "
                                    f"so no decode rank can call it")
        if self.topology.ranks > RANKS_MAX:
            raise RefusedError(400, f"attn_tp_size: over {RANKS_MAX:,} ranks in all")
        if is_nested(self.dsv41_spec_layout, NESTED_MAX):
            raise RefusedError(400, f"dsv41_spec_layout: over {NESTED_MAX} levels of nesting")
        if (why := self.topology.refusal(self.rank, "the registry")) is not None:
            raise RefusedError(409, why)


class Run(Struct, frozen=True):
    """The body of DELETE /route and POST /keepalive (ours): one run of a rank's process."""

    dp: Place
    cp: Place
    tp: Place
    pp: Place
    incarnation: U63

    @property
    def rank(self) -> Rank:
        """The rank of which it is a run."""
        return Rank(self.dp, self.cp, self.tp, self.pp)


class Silent(NamedTuple):
    """A run that is taken for silent. heard_at: the change that was its last sign of life."""

    rank: Rank
    incarnation: int
    heard_at: int


class Room(Struct, frozen=True):
    """The body of POST /register_dp_rank, and of POST /retire_dp_rank (ours).

    generation (ours): which life of the room. Without one, a room number that comes again on
    another rank, or after it was retired, is taken for another life.
    """

    bootstrap_room: U63
    dp_rank: Place
    generation: U63 | None = None


class Rooms(Struct, frozen=True):
    """The body of POST /query_dp_ranks, and of POST /withdraw_dp_ranks (ours).

    generations (ours): one for each room. full (ours): answer with a FullAnswer.
    """

    bootstrap_rooms: Annotated[tuple[U63, ...], Meta(max_length=ASKED_ROOMS_MAX)]
    generations: Annotated[tuple[U63, ...], Meta(max_length=ASKED_ROOMS_MAX)] = ()
    full: bool = False

    def lives(self) -> list[tuple[int, int | None]]:
        """Each room with its generation. Raises RefusedError if their numbers differ."""
        if not self.generations:
            return [(room, None) for room in self.bootstrap_rooms]
        if len(self.generations) != len(self.bootstrap_rooms):
            raise RefusedError(400, "generations: want one for each of bootstrap_rooms")
        return list(zip(self.bootstrap_rooms, self.generations, strict=True))


class Lookup(Struct, frozen=True):
    """The body of POST /ranks (ours): a sink looks these ranks up, for one of its hand-overs."""

    sink: Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
    handover: U63
    ranks: Annotated[tuple[Rank, ...], Meta(min_length=1, max_length=RANKS_MAX)]


class RankAddress(Struct, frozen=True):
    """The address of one run of a rank: the answer of GET /route, and a part of GET /ranks."""

    rank_ip: str
    rank_port: int
    incarnation: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name or 'a rank without a name'} at {joined(self.rank_ip, self.rank_port)}"


class Located(Struct, frozen=True):
    """An item of GET /ranks (ours)."""

    dp: int
    cp: int
    tp: int
    pp: int
    address: RankAddress


class ServerInfo(Topology, frozen=True, kw_only=True):
    """The properties of a prefill server that decode needs.

    follow_bootstrap_room: the data-parallel rank of a room is room modulo ranks. Otherwise the
    registry must be asked for the rank of each room.
    """

    follow_bootstrap_room: bool


class Directory(Struct, frozen=True):
    """A prefill server with the addresses of its ranks. The list has no rank of a data-parallel
    rank of which one drains (leaving.py), and otherwise all.
    """

    server: ServerInfo
    ranks: tuple[Located, ...]

    def addresses(self) -> Mapping[Rank, RankAddress]:
        """The address of each rank."""
        return {Rank(one.dp, one.cp, one.tp, one.pp): one.address for one in self.ranks}

    @property
    def is_whole(self) -> bool:
        """Whether every rank of the server is in the list."""
        return len(self.ranks) == self.server.ranks


class FullAnswer(Struct, frozen=True):
    """The known ranks of the queried rooms, and the rooms that are over. The others are unknown."""

    dp_ranks: dict[int, int]
    gone: tuple[int, ...]


def read(body: bytes, kind: type[B]) -> B:
    """The body as one of the structs. Raises RefusedError with the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise RefusedError(400, f"{kind.__name__}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"{kind.__name__}: the body is no JSON: {error}") from None


def is_nested(value: Any, deeper: int) -> bool:
    """Whether JSON has more lists and objects in one another than this."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return deeper < 1 or any(is_nested(one, deeper - 1) for one in inner)


def pieces(rooms: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """The rooms, in parts of at most ASKED_ROOMS_MAX: one question for each."""
    return (rooms[i:i + ASKED_ROOMS_MAX] for i in range(0, len(rooms), ASKED_ROOMS_MAX))
