"""One run: a plan is carried out, with checks after every step and at the end.

    outcome = simulate(planned(7, Shape(requests=200, faults=(Kind.CRASH,)), Random), Random)
    outcome.violation        # None, or the property, the time and the hand-over

Rule 1: the seed decides everything. No clock, no hash and no order of a set is used.
Rule 2: the run ends at the first violation. Otherwise it ends when all resources are free again, or
        when all waits of the tables must have ended.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Final, TypeAlias

from lab.sim.decode import DecodeServer
from lab.sim.event_queue import EventQueue
from lab.sim.fabric import Fabric, Pages, SimulatedSink, SimulatedSource, SinkSide
from lab.sim.host import Host
from lab.sim.network import Network
from lab.sim.optimistic import OptimisticServer
from lab.sim.outcome import (
    DRAINED,
    ENDS,
    PEERS,
    SHIPPED,
    STEADY,
    Roles,
    RunOutcome,
    Violation,
)
from lab.sim.plan import NETWORK, Fault, Kind, Plan, PlannedRequest
from lab.sim.prefill import PrefillServer
from lab.sim.server import Rank
from lab.sim.watch import Recorder, Telling, Watch, Witness
from pdproto.node.data_path import SourceDataPath
from pdproto.node.decode.node import Decode
from pdproto.node.link import Link
from pdproto.node.prefill.node import Prefill
from pdproto.runtime.trace import TraceTarget, TraceWriter
from pdproto.testing.chance import Seeded, Stream

SETTLE_S: Final = 120.0  # after the last arrival and fault; longer than all waits together
LOOK_S: Final = 0.5  # between two checks whether the run is over
COLLECTED_AFTER: Final = 500_000  # new objects; of fewer, most are still in use

Server: TypeAlias = PrefillServer | OptimisticServer | DecodeServer


class _ViolatedError(Exception):
    """Ends a run at once."""


class Cluster:
    """A run under way. targets: opens a trace for a process of this name; None for no traces."""

    def __init__(
        self, plan: Plan, seeded: Seeded, *, roles: Roles = SHIPPED,
        targets: Callable[[str], TraceTarget] | None = None, recorder: Recorder | None = None,
        on_fault: Callable[[Fault], None] = lambda _: None,
    ) -> None:
        self.plan: Final = plan
        self.event_queue: Final = EventQueue()
        self.outcome: Final = RunOutcome(plan)
        self.network: Final = Network(self.event_queue, plan.shape.latency_s, self._stream)
        self.fabric: Final = Fabric(self.event_queue, plan.shape, self._blame)
        self.servers: Final[dict[str, Server]] = {}
        self._seeded: Final = seeded
        self._roles: Final = roles
        self._targets: Final = targets
        self._recorder: Final = recorder
        self._on_fault: Final = on_fault
        self._traces: Final[dict[str, FailingTarget]] = {}
        self._engines: Final[dict[str, SimulatedSource]] = {}
        self._deaths: Final[dict[str, int]] = {}
        self._missing: Final[dict[tuple[str, int], None]] = {
            (side, request.room): None
            for request in plan.requests for side in ("prefill", "decode")}
        self._watch: Final = Watch(
            {request.room: request for request in plan.requests}, self._sources,
            (roles.source.table, roles.sink.table), lambda: self.event_queue.now, self._blame)

    def run(self) -> RunOutcome:
        """Carry the plan out. Returns its outcome."""
        try:
            with _few_collections():
                self._begin()
                self._go_on()
            self._check_the_end()
        except _ViolatedError:
            pass
        finally:
            self._close()
        return self._counted()

    def _go_on(self) -> None:
        deadline = self.plan.ends + SETTLE_S
        self.event_queue.run(self.plan.ends)
        while self.event_queue.now < deadline and self._missing:
            self.event_queue.run(self.event_queue.now + LOOK_S)
        while self.event_queue.now < deadline and self._held():
            self.event_queue.run(self.event_queue.now + LOOK_S)

    # The start

    def _begin(self) -> None:
        for name in self.plan.servers(lambda request: request.prefill):
            self._start_prefill(name)
        for name in self.plan.servers(lambda request: request.decode):
            self._start_decode(name)
        self.event_queue.foresee(
            (at, self._arrive, (side, request)) for request in self.plan.requests
            for side, at in (("prefill", request.prefill_at), ("decode", request.decode_at)))
        for fault in self.plan.faults:
            self.event_queue.at(fault.at, self._break, fault)
            self.event_queue.at(fault.until, self._mend, fault)

    def _host(self, name: str, server: str) -> Host:
        """A new process of this name, after those that have ended."""
        number = self._deaths.get(server, 0)
        # Names differ, and so do the processes of one name: no two have the same incarnation.
        incarnation = (1 + number) * 1_000_000 + (int(server[1:]) + 1) * 100 + len(server)
        host = Host(self.event_queue, self.network, name, server, incarnation,
                    self.plan.shape.turn_s)
        host.turn_failed = self._turn_failed
        self.network.processes[name] = host
        return host

    def _witness(self, host: Host) -> Witness:
        if self._targets is None and self._recorder is None:
            return Witness(host.name, self._watch)
        trace = None
        if self._targets is not None:
            process = f"{host.name}-{self._deaths.get(host.server, 0)}"
            target = self._traces[host.name] = FailingTarget(self._targets(process))
            trace = TraceWriter(host.name, target)
        return Telling(host.name, self._watch, trace, self._recorder)

    def _start_prefill(self, name: str) -> None:
        shape = self.plan.shape
        kind = PrefillServer if shape.retries is None else OptimisticServer
        server = kind(name, self.event_queue, shape, Pages(shape.pages),
                      partial(self._ended, "prefill"))
        for rank in _ranks(name, shape.pp):
            host = self._host(rank, name)
            node = Prefill(rank, self.source_side(host, server.pages), link=self._link(),
                           incarnation=host.incarnation, waits=shape.waits,
                           trace=self._witness(host), role=self._roles.source)
            host.run(node.core)
            server.ranks.append(Rank(host, node))
        self.servers[name] = server

    def _start_decode(self, name: str) -> None:
        shape = self.plan.shape
        server = DecodeServer(name, self.event_queue, Pages(shape.pages), shape.slots,
                              addresses=self._addresses, blame=self._blame,
                              answered=self._answered, ended=partial(self._ended, "decode"))
        host = self._host(name, name)
        engine = self.sink_side(host, server.pages)
        node = Decode(name, engine, link=self._link(), incarnation=host.incarnation,
                      waits=shape.waits, trace=self._witness(host), role=self._roles.sink)
        server.run(host, node, engine)
        host.run(node.core)
        self.servers[name] = server

    def source_side(self, host: Host, pages: Pages) -> SourceDataPath:
        """The data path of a new prefill rank."""
        engine = SimulatedSource(host, self.fabric, pages, self.stream_of(host, "engine"))
        self._engines[host.name] = engine
        return engine

    def sink_side(self, host: Host, pages: Pages) -> SinkSide:
        """The data path of a new decode rank."""
        return SimulatedSink(host, self.fabric, pages, self.stream_of(host, "engine"),
                             self._engines)

    def _link(self) -> Link:
        of = self.plan.shape
        return Link(sign_of_life_s=of.sign_of_life_s, silent_s=of.silent_s, absent_s=of.absent_s)

    def _stream(self, name: str) -> Stream:
        return Stream(self._seeded, f"{self.plan.seed}/{name}")

    def stream_of(self, host: Host, name: str) -> Stream:
        """Random numbers of one process for this purpose."""
        return self._stream(f"{host.name}/{host.incarnation}/{name}")

    def _sources(self, request: PlannedRequest) -> tuple[str, ...]:
        return _ranks(request.prefill, self.plan.shape.pp)

    def _addresses(self, request: PlannedRequest) -> Mapping[str, str]:
        return _endpoints(request.prefill, self.plan.shape.pp)

    # Events

    def _arrive(self, side: str, request: PlannedRequest) -> None:
        server = self.servers[request.prefill if side == "prefill" else request.decode]
        if server.dead:
            self._ended(side, request, False)  # the client cannot connect
            return
        server.arrive(request)
        if request.aborted is not None and request.aborted[0] == side:
            self.event_queue.after(request.aborted[1], self._abort, server, request.room)

    def _abort(self, server: Server, room: int) -> None:
        if not server.dead:
            server.abort(room)

    def _ended(self, side: str, request: PlannedRequest, success: bool) -> None:
        del self._missing[side, request.room]
        if side == "decode":
            self.outcome.succeeded += success
            self.outcome.failed += not success

    def _answered(self, request: PlannedRequest) -> None:
        """Note the time when decode has the KV and the first token."""
        sent_at = min(request.prefill_at, request.decode_at)
        self.outcome.first_token_s.append(self.event_queue.now - sent_at)

    def _break(self, fault: Fault) -> None:
        """Begin a fault."""
        self._on_fault(fault)
        match fault.kind:
            case Kind.CRASH:
                self._crash(fault.server)
            case Kind.PAUSE | Kind.JUMP | Kind.SLOW:
                for host in self._hosts(fault):
                    host.paused = fault.kind is Kind.PAUSE or host.paused
                    host.skew += fault.amount * (fault.kind is Kind.JUMP)
                    host.turn_s *= fault.amount if fault.kind is Kind.SLOW else 1.0
                    host.wake()
            case Kind.DISK:
                for host in self._hosts(fault):
                    if host.name in self._traces:
                        self._traces[host.name].full = True
            case Kind.HANG | Kind.ERROR:
                self.fabric.active.append(fault)
            case _:
                self.network.active.append(fault)

    def _mend(self, fault: Fault) -> None:
        """End a fault."""
        match fault.kind:
            case Kind.CRASH:
                self._restart(fault.server)
            case Kind.PAUSE:
                for host in self._hosts(fault):
                    host.resume()
            case Kind.SLOW:
                for host in self._hosts(fault):
                    host.turn_s = self.plan.shape.turn_s
            case Kind.HANG | Kind.ERROR:
                self.fabric.active.remove(fault)
            case kind if kind in NETWORK:
                self.network.active.remove(fault)

    def _hosts(self, fault: Fault) -> list[Host]:
        """The running processes of the fault's server."""
        server = self.servers.get(fault.server)
        return [] if server is None or server.dead else server.hosts

    def _crash(self, name: str) -> None:
        server = self.servers.get(name)
        if server is None or server.dead:
            return
        for host in server.hosts:
            host.die()
            self.network.die(host)
            self._watch.die(host.name)
        self._deaths[name] = self._deaths.get(name, 0) + 1
        server.die()
        self._close_server(server)

    def _restart(self, name: str) -> None:
        server = self.servers.get(name)
        if server is not None and server.dead:
            begin = self._start_decode if isinstance(server, DecodeServer) else self._start_prefill
            begin(name)

    # The end

    def _blame(self, name: str, about: str, room: int) -> None:
        """Note the first violation, and end the run."""
        if self.outcome.violation is None:
            self.outcome.violation = Violation(name, about, self.event_queue.now, room)
        raise _ViolatedError

    def _turn_failed(self, host: Host, error: Exception) -> None:
        if isinstance(error, _ViolatedError):
            raise error
        self._blame(STEADY, f"{host.name}: {type(error).__name__}: {error}", -1)

    def _living(self) -> list[Server]:
        return [server for server in self.servers.values() if not server.dead]

    def _held(self) -> str:
        """A resource that is not free: a gauge, a page, a slot or a staging buffer; "" for none."""
        for server in self._living():
            for node in server.nodes:
                for gauge, value in node.metrics.read().items():
                    if gauge.startswith("num_") and value:
                        return f"{node.core.name}: {gauge} is {value:g}"
            held = server.held()
            if held:
                return f"{server.name}: {held}"
        return ""

    def _check_the_end(self) -> None:
        crashes = any(fault.kind is Kind.CRASH for fault in self.plan.faults)
        for node in [node for server in self._living() for node in server.nodes]:
            counted = node.metrics.read()
            # After a crash, a peer may send the successor messages for the process before it.
            malformed = 0.0 if crashes else counted["malformed_frames"]
            if counted["refused_frames"] or malformed:
                self._blame(PEERS, f"{node.core.name} has refused {counted['refused_frames']:g} "
                            f"messages and {malformed:g} batches", -1)
            if node.core.mistakes:
                self._blame(STEADY, f"{node.core.name}: {node.core.mistakes} calls that the tables "
                            f"refuse", -1)
        if self._missing:
            side, room = next(iter(self._missing))
            self._blame(ENDS, f"room {room} has not ended at {side}, {SETTLE_S:g} s after all "
                        f"faults; {len(self._missing)} in all", room)
        held = self._held()
        if held:
            self._blame(DRAINED, f"{held}, {SETTLE_S:g} s after all faults", -1)

    def _counted(self) -> RunOutcome:
        outcome = self.outcome
        outcome.seconds = self.event_queue.now
        outcome.steps = self._watch.steps
        outcome.batches, outcome.lost = self.network.sent, self.network.lost
        outcome.landed = self.fabric.landed
        return outcome

    def _close(self) -> None:
        for server in self._living():
            self._close_server(server)

    def _close_server(self, server: Server) -> None:
        if isinstance(server, OptimisticServer):
            self.outcome.reruns += int(server.prefill.metrics.read()["prefill_retries"])
        for node in server.nodes:
            for name, value in node.metrics.read().items():
                if not name.startswith("num_"):
                    self.outcome.counted[name] = self.outcome.counted.get(name, 0.0) + value
            node.core.close()


class FailingTarget:
    """The target of a trace, on a disk that may become full."""

    def __init__(self, target: TraceTarget) -> None:
        self.full = False
        self._target: Final = target

    def write(self, data: bytes) -> object:
        """Write to the target. Raises OSError when the disk is full."""
        if self.full:
            raise OSError("no space left on device")
        return self._target.write(data)


@cache
def _ranks(server: str, pp: int) -> tuple[str, ...]:
    return tuple(f"{server}.{stage}" for stage in range(pp))


@cache
def _endpoints(server: str, pp: int) -> Mapping[str, str]:
    """The endpoints of the ranks: the address of a simulated process is its name."""
    return {name: name for name in _ranks(server, pp)}


@contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage seldom. Nodes leave no reference cycles, so the usual collections would take
    a fifth of the run's time and find none.
    """
    usual = gc.get_threshold()
    gc.set_threshold(max(COLLECTED_AFTER, usual[0]) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def simulate(
    plan: Plan, seeded: Seeded, *, roles: Roles = SHIPPED,
    targets: Callable[[str], TraceTarget] | None = None, recorder: Recorder | None = None,
    on_fault: Callable[[Fault], None] = lambda _: None,
) -> RunOutcome:
    """Carry the plan out. The same plan has the same outcome, and the same traces byte by byte.

    roles: the tables of the nodes. targets: opens a trace for a process by its name. recorder:
    called with every step. on_fault: called with every fault.
    """
    return Cluster(plan, seeded, roles=roles, targets=targets, recorder=recorder,
                   on_fault=on_fault).run()
