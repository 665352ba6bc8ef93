"""Groups that prefill before the bootstrap, for tests: real ranks without sockets or clocks.

Every frame travels by itself. The caller chooses the next event: a frame arrives, a device computes
a chunk, a bootstrap ends, a transfer ends. What a rank may not do is checked when it does it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from random import Random

from pdproto.check.result import Verdict as Outcome
from pdproto.check.trace.verify import verify
from pdproto.group.entry import Submitted
from pdproto.group.node import GroupNode
from pdproto.group.passes import TABLES, PassOptions
from pdproto.group.rank import Decision, Pass
from pdproto.node.link import Link
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.runtime.batches import encode
from pdproto.runtime.sample import retry_is_forced
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import agreement, optimistic_group
from pdproto.spec.handoff.group import Verdict
from pdproto.spec.language.machine import Table
from pdproto.spec.language.system import System
from tests.node.offline import Offline

QUIET = Link(sign_of_life_s=1e6, silent_s=1e7)
NEVER = {"no_votes": 1e6, "no_decision": 1e6, "no_confirmation": 1e6, "no_release": 1e6}
BOOTSTRAP_S = 1e5
ENDS = (Verdict.FAIL, Verdict.RELEASE, Verdict.DROP)


def tables_of(system: System) -> dict[str, Table]:
    return {table.machine.name: table for table in system.tables}


@dataclass(slots=True)
class Running:
    """A request at a rank. computes: whether its last chunk is computed now; None: no chunk is."""

    computes: bool | None = None
    kv: bool = False
    whole: bool = False
    ready: bool = False
    failed: bool = False
    sending: bool = False


@dataclass(eq=False)
class RankAt:
    """A rank, with the transport and the scheduler of the test."""

    node: GroupNode
    offline: Offline
    traces: tuple[BytesIO, BytesIO]
    held: dict[Life, Running] = field(default_factory=dict)
    applied: list[Decision] = field(default_factory=list)
    running_most: int = 0


class OptimisticRanks:
    """All ranks of a group. tables: of passes, by machine; the protocol's own unless given."""

    def __init__(
        self, count: int, passes: OptimisticSettings, *,
        tables: Mapping[str, Table] | None = None, waits: Mapping[str, float] | None = None,
    ) -> None:
        self.passes = passes
        self.answered: list[Submitted] = []
        self.network: list[tuple[int, int, bytes]] = []
        self.ranks = [self._rank(index, count, tables, NEVER | dict(waits or {}))
                      for index in range(count)]
        self.ready: dict[Life, set[int]] = {}  # the ranks that have reported their bootstrap

    def _rank(self, index: int, count: int, tables: Mapping[str, Table] | None,
              waits: Mapping[str, float]) -> RankAt:
        endpoints = {rank: f"ipc://{rank}" for rank in range(count)}
        traces = BytesIO(), BytesIO()
        options = PassOptions(self.passes, SharedTrace(f"g.{index}", traces[1]), tables or TABLES)
        node = GroupNode(
            "g", endpoints, me=index, slots=self.passes.slots, passes=options,
            stop=lambda _: True, entry=0, link=QUIET, incarnation=100 + index, waits=waits,
            trace=SharedTrace(f"g.{index}", traces[0]))
        return RankAt(node, Offline(node.core), traces)

    def submit(self, room: int) -> Submitted:
        request = Submitted(Life(room, self.ranks[0].node.core.incarnation, room), b"",
                            self.answered.append, request_id=str(room))
        self.ranks[0].offline.ask(lambda: self.ranks[0].node.submit(request))
        self.turn(0)
        return request

    def abort(self, request: Submitted) -> None:
        self.ranks[0].offline.ask(lambda: self.ranks[0].node.abort(request, "the client has left"))
        self.turn(0)

    # Events

    def turn(self, index: int, *batches: tuple[str, bytes], after: float = 0.0) -> None:
        """A turn of a rank; its scheduler then takes what there is for it."""
        rank = self.ranks[index]
        rank.offline.turn(*batches, after=after)
        while rank.node.core.wants_turn:
            rank.offline.turn()
        assert rank.node.core.mistakes == 0
        assert not rank.node.core.malformed
        assert rank.node.core.metrics.read()["refused_frames"] == 0, "a frame is refused"
        for peer in rank.node.core.peers.values():
            line = rank.offline.line(peer.name)
            target = int(peer.name.removeprefix("g."))
            for batch in line.said:
                self.network += [(index, target, encode(batch.node, batch.incarnation, batch.floor,
                                                        [frame])) for frame in batch.frames]
                if not batch.frames:
                    self.network.append((index, target, encode(
                        batch.node, batch.incarnation, batch.floor, [])))
            line.said.clear()
        while rank.node.rank.arrivals:
            rank.held.setdefault(rank.node.rank.arrivals.popleft().life, Running())
        while rank.node.rank.decisions:
            self._apply(rank, rank.node.rank.decisions.popleft())

    def deliver(self, place: int, *, again: bool = False) -> None:
        """A frame arrives. again: it will arrive once more."""
        source, target, data = self.network[place]
        if not again:
            self.network[place] = self.network[-1]
            self.network.pop()
        self.turn(target, (f"g.{source}", data))

    def _apply(self, rank: RankAt, decision: Decision) -> None:
        rank.applied.append(decision)
        running, life = rank.held[decision.life], decision.life
        match decision.verdict:
            case Pass.RUN:
                assert not running.kv
                assert running.computes is None
                running.kv, running.computes, running.whole = True, False, False
            case Pass.GO_ON:
                assert running.computes is None
                running.computes = True
            case Pass.FINALIZE:
                assert len(self.ready[life]) == len(self.ranks), "finalized unready"
            case Pass.GIVE_WAY:
                assert running.computes is None, "KV is dropped while it is written"
                assert all(self._computed_as_much(other, rank, life) for other in self.ranks), (
                    "KV is dropped while another rank computes")
                running.kv, running.whole = False, False
            case Pass.ADMIT:
                assert len(self.ready[life]) == len(self.ranks), "admitted unready"
                running.kv = running.whole = True
            case Verdict.ADMIT:
                assert running.whole, "sent before it is computed"
                running.sending = decision.transfers
            case _:
                assert running.computes is None, "KV is freed while it is written"
                assert decision.verdict in ENDS
                del rank.held[life]
        rank.running_most = max(rank.running_most, sum(r.kv for r in rank.held.values()))

    @staticmethod
    def _computed_as_much(other: RankAt, rank: RankAt, life: Life) -> bool:
        running = other.held.get(life)
        ahead = len([d for d in other.applied if isinstance(d.verdict, Pass)])
        here = len([d for d in rank.applied if isinstance(d.verdict, Pass)])
        return running is None or running.computes is None or ahead >= here

    def compute(self, index: int, life: Life) -> None:
        """The device of a rank has computed what it was told to."""
        rank = self.ranks[index]
        last = rank.held[life].computes
        assert last is not None
        rank.held[life].computes, rank.held[life].whole = None, last
        passes = rank.node.passes
        assert passes is not None
        rank.offline.ask(lambda: passes.computed(life, last=last))
        self.turn(index)

    def report(self, index: int, life: Life, name: str, reason: str = "") -> None:
        """The scheduler of a rank reports."""
        rank = self.ranks[index]
        if name == "bootstrapped":
            rank.held[life].ready = True
            self.ready.setdefault(life, set()).add(index)
        rank.held[life].failed |= name == "failed"
        rank.held[life].sending &= not name.startswith("transfer")
        rank.offline.ask(lambda: rank.node.call(name, life, reason, 0))
        self.turn(index)

    # Until the end

    def events(self, *, bootstraps: bool) -> list[tuple[str, int, Life]]:
        """What devices and transfers can do now; and bootstraps too."""
        found = []
        for index, rank in enumerate(self.ranks):
            for life, running in rank.held.items():
                if running.computes is not None:
                    found.append(("compute", index, life))
                if running.sending:
                    found.append(("transferred", index, life))
                if bootstraps and not running.ready and not running.failed:
                    found.append(("bootstrapped", index, life))
        return found

    def happen(self, event: tuple[str, int, Life]) -> None:
        name, index, life = event
        if name == "compute":
            self.compute(index, life)
        else:
            self.report(index, life, name)

    def run(self, random: Random, *, bootstraps: bool = True, steps: int = 100_000) -> None:
        """Until nothing can happen any more, in an order that chance decides."""
        for _ in range(steps):
            events = self.events(bootstraps=bootstraps)
            choices = len(events) + len(self.network)
            if not choices:
                return
            chosen = random.randrange(choices)
            if chosen < len(events):
                self.happen(events[chosen])
            else:
                self.deliver(chosen - len(events), again=random.random() < 0.1)
        raise AssertionError("it does not come to rest")

    def check(self, folder: Path | None = None) -> None:
        """All ranks have decided alike, each decision once, and nothing is held."""
        self.turn(0, after=2 * QUIET.sign_of_life_s)  # says what the ranks may forget
        while self.network:
            self.deliver(0)
        for kind in (Pass, Verdict):
            lists = [[d for d in rank.applied if isinstance(d.verdict, kind)]
                     for rank in self.ranks]
            told = [[(d.number, d.verdict, d.life, d.attempt, d.slot) for d in of] for of in lists]
            assert all(of == told[0] for of in told), f"{kind.__name__}: ranks decide differently"
            assert [n for n, *_ in told[0]] == sorted({n for n, *_ in told[0]})
        for rank in self.ranks:
            gauges = {name: value for name, value in rank.node.core.metrics.read().items()
                      if name.startswith("num_") and value}
            assert gauges == {}
            assert rank.held == {}
            assert rank.running_most <= self.passes.running_slots
        lives = Counter(d.life for d in self.ranks[0].applied if d.verdict is Pass.RUN)
        assert max(lives.values(), default=0) <= self.passes.attempts
        if folder is not None:
            self._replay(folder)

    def _replay(self, folder: Path) -> None:
        for place, system in enumerate((agreement.SYSTEM, optimistic_group.SYSTEM)):
            paths = [folder / f"{system.name}-{index}.jsonl" for index in range(len(self.ranks))]
            for path, rank in zip(paths, self.ranks, strict=True):
                path.write_bytes(rank.traces[place].getvalue())
            verified = verify(system, paths)
            assert verified.verdict is Outcome.HOLDS, verified

    def is_forced(self, room: int) -> bool:
        return retry_is_forced(str(room), self.passes.force_retry_probability)
