"""The addresses of the prefill ranks of a `pdproto handoff`, through the registry.

Prefill ranks register, and decode ranks look them up. Calls to the registry block, so they run on
threads of their own, beside the scheduler.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from time import monotonic, sleep
from typing import Final, TypeAlias

from pdproto.drill.handoff.load import Topology
from pdproto.node.link import place_of, tcp_at
from pdproto.registry.finder import Finder
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Rank, RankAddress, Registration
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.versions import OLDEST, VERSION
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.keys import Keys

Endpoints: TypeAlias = Mapping[str, str]  # where each rank listens, by name

SIGN_OF_LIFE_S: Final = 0.5
RETRY_S: Final = 0.2
ANSWERS_KEPT: Final = 16  # so that a loss that is noticed late is said of the answer it is about


def registrar(
    registry: str, name: str, topology: Topology, endpoint: str, trace: SharedTrace | None,
    keys: Keys | None = None,
) -> Registrar:
    """Keep a prefill rank registered. endpoint: where its node listens, tcp://host:port."""
    rank = _rank(name)
    host, port = place_of(endpoint)
    return Registrar(
        registry,
        Registration(
            attn_tp_size=topology.tp, attn_tp_rank=rank.tp, attn_cp_size=topology.cp,
            attn_cp_rank=rank.cp, pp_size=topology.pp, pp_rank=rank.pp, rank_ip=host,
            rank_port=port, incarnation=new_incarnation(), version=VERSION, oldest=OLDEST,
        ),
        sign_of_life_s=SIGN_OF_LIFE_S,
        retry_s=RETRY_S,
        trace=trace,
        keys=keys,
    )


class Directory:
    """The prefill ranks that a decode rank needs, looked up again when one has been lost.

    needed: their names. sink: the name of the decode rank. The rows of the sink decide which
    answers of the registry are of use (registry/sink.py). One thread, the scheduler's, calls.
    """

    def __init__(
        self,
        registry: str,
        needed: Sequence[str],
        *,
        sink: str = "decode",
        patience_s: float = WAITS["no_sign_of_life"].seconds + SIGN_OF_LIFE_S,
        trace: SharedTrace | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._ranks: Final = {name: _rank(name) for name in needed}
        self._answers: Final[deque[tuple[Endpoints, Mapping[Rank, RankAddress]]]] = deque(
            maxlen=ANSWERS_KEPT)
        self._finder: Final = Finder(registry, sink, self._ranks.values(), retry_s=RETRY_S,
                                     patience_s=patience_s, trace=trace, keys=keys)
        self._finder.start()

    @property
    def endpoints(self) -> Endpoints | None:
        """The endpoints by name. None while the look-up runs: nothing can be opened then. Each
        look-up returns a new object.
        """
        found = self._finder.found
        if found is None:
            return None
        if not self._answers or self._answers[-1][1] is not found:
            where = {name: tcp_at(found[rank].rank_ip, found[rank].rank_port)
                     for name, rank in self._ranks.items()}
            self._answers.append((where, found))
        return self._answers[-1][0]

    @property
    def problem(self) -> str:
        """The reason why the last look-up failed."""
        return self._finder.problem

    def lost(self, names: Collection[str], answer: Endpoints) -> None:
        """Look for later runs of these ranks: they are gone from the endpoints of this answer."""
        for where, found in self._answers:
            if where is answer:
                self._finder.lose([self._ranks[n] for n in names if n in self._ranks], found)

    def close(self) -> None:
        self._finder.stop()


def _rank(name: str) -> Rank:
    """The coordinates of a prefill rank, by its name in a drill."""
    stage, tensor, context = map(int, name.split("-")[1:])
    return Rank(dp=0, cp=context, tp=tensor, pp=stage)


def wait_for(directory: Directory, seconds: float) -> bool:
    """Wait for the first look-up to succeed. Returns whether it did in time."""
    deadline = monotonic() + seconds
    while directory.endpoints is None and monotonic() < deadline:
        sleep(RETRY_S / 4)
    return directory.endpoints is not None
