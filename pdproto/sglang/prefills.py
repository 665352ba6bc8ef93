"""The prefill servers that a decode rank knows, and the ranks of them that send to it.

Rule 1: if a server does not fit, its requests fail at both servers with the values of both, and the
        schedulers go on: decode opens the hand-over, and aborts it with that reason.
Rule 2: an answer of the registry is used again until one of its ranks is lost.
Rule 3: the scheduler's thread waits for no registry: see registry/lookups.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Final

from sglang.srt.disaggregation.common.conn import PrefillServerInfo

from pdproto.items.shares import TpRank
from pdproto.node.decode.receiver import Addressed
from pdproto.node.link import tcp_at
from pdproto.registry.lookups import Lookups, named
from pdproto.registry.wire import Directory, Rank, ServerInfo
from pdproto.transport.keys import Keys


@dataclass(frozen=True, slots=True)
class Feed:
    """The ranks that send to this rank: their endpoints by name.

    SGLang gets the metadata row of the first one. sinks: the ranks of this group to which the same
    sources send, by their place. twin: the source, if it is the only one and has the same place in
    a tensor parallelism of the same size, without a pipeline. addressed: of which data-parallel
    rank they are. misfit: why their server does not fit this one; empty if it does.
    """

    sources: dict[str, str]
    sinks: range
    twin: str | None
    addressed: Addressed
    misfit: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """The values of a rank that must be the same at both servers, as the registry names them.

    None is not compared. page_size: of pages as they are handed over, or of their parts (parts.py).
    """

    page_size: int | None
    kv_cache_dtype: str | None
    kv_layout: str | None


IN_PARTS: Final = ": want the same --page-size, or set page_tokens to a number that divides both"
KIND: Final = tuple(field.name for field in fields(Kind))


class Prefills:
    """The prefill servers that this rank knows.

    kind: of this rank. place: in its tensor parallelism. stage: in decode's pipeline. lost: returns
    the names of peers that are gone. keys: see RegistryClient.
    """

    def __init__(
        self, kind: Kind, place: TpRank, stage: TpRank,
        lost: Callable[[], Iterable[str]], keys: Keys | None = None,
    ) -> None:
        self.table: Final[dict[str, PrefillServerInfo]] = {}
        self._kind: Final = kind
        self._place: Final = place
        self._stage: Final = stage
        self._lost: Final = lost
        self._lookups: Final = Lookups(keys)
        self._feeds: Final[dict[tuple[str, int], Feed]] = {}

    def ensure(self, address: str) -> bool:
        """Whether the server at this address is known. If not, it is looked up; nobody waits."""
        if address in self.table:
            return True
        try:
            directory = self._lookups.of(address)
        except LookupError:
            return False  # it has been logged
        if directory is None:
            return False
        server = directory.server
        self.table[address] = PrefillServerInfo(
            attn_tp_size=server.attn_tp_size, attn_cp_size=server.attn_cp_size,
            dp_size=server.dp_size, pp_size=server.pp_size, page_size=server.page_size,
            kv_cache_dtype=server.kv_cache_dtype,
            follow_bootstrap_room=server.follow_bootstrap_room,
            prefill_http_port=server.prefill_http_port,
            **({"kv_layout": server.kv_layout} if hasattr(PrefillServerInfo, "kv_layout") else {}),
        )
        return True

    def feed(self, address: str, dp_rank: int) -> Feed | None:
        """The ranks that send the rooms of this data-parallel rank; None while they are looked up.

        Raises LookupError with the reason if there are none.
        """
        found = self._feeds.get((address, dp_rank))
        is_lost = found is not None and not found.sources.keys().isdisjoint(self._lost())
        if found is not None and not is_lost:
            return found
        try:
            directory = self._lookups.of(address, fresh=is_lost)  # its ranks may have restarted
            if directory is None:
                return None
            found = self._feeds[address, dp_rank] = self._feed(
                directory, Addressed(address, directory.server.dp_size, dp_rank))
        except (LookupError, ValueError) as error:
            raise LookupError(f"{named(address)}: {error}") from None
        return found

    def tell(self, told: Callable[[str], None]) -> None:
        """Call this in another thread, with the address of a server whose answer has come."""
        self._lookups.told = told

    def _feed(self, directory: Directory, addressed: Addressed) -> Feed:
        """Find the ranks. Raises ValueError for a server that has no such rank, and on a later
        stage of a pipeline that does not fit.
        """
        server = directory.server
        addresses = directory.addresses()
        sources = {}
        ranks = self._place.partners(server.attn_tp_size)
        misfit = self._misfit(server)
        for pp in reversed(self._feeding(server.pp_size)):  # the last one has the output
            for tp in ranks:
                address = addresses.get(Rank(addressed.rank, 0, tp, pp))
                if address is None:
                    raise ValueError(_left_out(Rank(addressed.rank, 0, tp, pp), server))
                sources[address.name] = tcp_at(address.rank_ip, address.rank_port)
        if not sources:
            raise ValueError(misfit)
        source = TpRank(server.attn_tp_size, ranks[0])
        is_alike = source == self._place and len(sources) == self._stage.size == 1
        twin = next(iter(sources)) if is_alike else None
        why = f"{named(addressed.server)}: {misfit}" if misfit else ""
        return Feed(sources, source.partners(self._place.size), twin, addressed, why)

    def _feeding(self, stages: int) -> range:
        """The stages of prefill's pipeline that have this rank's layers: all stages if decode has
        no pipeline, else the same stage, as in SGLang. If the sizes do not fit, the first stage of
        decode refuses all of them, and its other stages refuse none.
        """
        fits = self._stage.size in (1, stages)
        if self._stage.size == 1 or not (fits or self._stage.rank):
            return range(stages)
        return range(self._stage.rank, self._stage.rank + 1) if fits else range(0)

    def _misfit(self, server: ServerInfo) -> str:
        """Why a server does not fit this rank, with the values of both. Empty if it does."""
        if self._stage.size not in (1, server.pp_size):
            return (f"stages of the pipeline: {server.pp_size} at prefill and {self._stage.size} "
                    "at decode: want as many, or 1 at decode")
        for name in KIND:
            there, here = getattr(server, name), getattr(self._kind, name)
            if there is not None and here is not None and there != here:
                told = f"{name} is {there} at prefill and {here} at decode"
                return told + (IN_PARTS if name == "page_size" else "")
        return ""


def _left_out(rank: Rank, server: ServerInfo) -> str:
    """Why a registry does not name this rank (see Directory)."""
    if not 0 <= rank.dp < server.dp_size:
        return f"it has no {rank}: its data-parallel ranks are 0 to {server.dp_size - 1}"
    return f"its registry does not name {rank}, because that or one beside it drains"
