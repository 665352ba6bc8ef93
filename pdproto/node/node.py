"""A node with endpoints: they take events, and the node carries out the effects of their steps."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pdproto.ground.layout import Indices
from pdproto.node.core import Core
from pdproto.node.data_path import CountsBytes, DataPath, HasMetrics, why_broken
from pdproto.node.fit import barred, layout_for
from pdproto.node.handle import ENDED
from pdproto.node.link import Link
from pdproto.node.metrics import Metrics
from pdproto.node.peer import Peer
from pdproto.node.ports import Transport
from pdproto.node.timers import Timers
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import REASON_MAX
from pdproto.runtime.local_rows import AnyMessage
from pdproto.runtime.role import Role
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import AnyFrame, Batch, Life, PageLayout
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.formula import Formula, Value
from pdproto.spec.language.symbols import State, Symbol

log = logging.getLogger("pdproto.node")

Reaction: TypeAlias = Callable[[Endpoint, Indices], None]
Writer: TypeAlias = Callable[[Endpoint, int], AnyFrame]

PLANS_MAX: Final = 1 << 16  # cached plans; a full cache is cleared
CLOSED: Final = "the node has been closed"


@dataclass(frozen=True, slots=True)
class Side:
    """The differences between the two kinds of node.

    stage: the variable of the table that holds the stage of an endpoint. stages: its type.
    under_way: stages in which bytes may move, so that a failure counts as one of the transfer.
    polls, settled: the formulas for `Handle.poll` and `Handle.settled`. queues: gauges, each with
    its name, its description and the stages that it counts.
    """

    name: str
    stage: Symbol
    stages: type[State]
    succeeded: State
    failed: State
    under_way: tuple[State, ...]
    polls: Sequence[tuple[Formula, KVPoll]]
    settled: Sequence[tuple[Formula, KVPoll]]
    queues: tuple[tuple[str, str, tuple[State, ...]], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The consequences of a step, computed once.

    reactions: in order; those that send frames come first. status, settled: the new values of the
    handle. armed: the timers that run.
    """

    reactions: tuple[tuple[Reaction, Indices], ...]
    status: KVPoll
    settled: KVPoll
    armed: tuple[str, ...]


class _NoOwner:
    """Replaces the owner of an endpoint that is over. Its status is not used."""

    status = settled = KVPoll.BOOTSTRAPPING
    watchers: Final = ()


class Node(Core):
    """A core with endpoints. It acts on each step: on messages, variables and timers, by name.

    writers: by message, the function that makes its frame for the i-th peer. reactions: by variable
    and value, the action when the variable gets that value. lives: the endpoint of each life.
    """

    role: Role

    def __init__(
        self,
        name: str,
        link: Link,
        *,
        side: Side,
        data_path: DataPath,
        incarnation: int,
        waits: Mapping[str, float] | None,
        trace: TraceWriter | None,
    ) -> None:
        super().__init__(name, link, incarnation)
        self.metrics: Final = Metrics({"node": name, "side": side.name})
        self.lives: Final[dict[Life, Endpoint]] = {}
        self.writers: Final[dict[AnyMessage, Writer]] = {}
        self.reactions: Final[dict[tuple[Symbol, Value], Reaction]] = {
            (side.stage, stage): partial(self._enter, stage) for stage in side.stages}
        self.reactions[side.stage, side.succeeded] = self._succeed
        self.reactions[side.stage, side.failed] = self._fail
        self.side: Final = side
        self._data_path: Final = data_path
        self.broken: Final = partial(why_broken, data_path, name)  # for any thread
        self.bytes_of: Final[Callable[..., int]] = (
            data_path.bytes_of if isinstance(data_path, CountsBytes) else lambda *_: 0)
        self._no_owner: Final = _NoOwner()
        self._forgotten: Final[list[Endpoint]] = []  # in this turn
        self._plans: Final[dict[Step, Plan]] = {}
        self._timers: Final = Timers(waits)
        self._write: Final = None if trace is None else trace.write
        self._over: Final = None if trace is None else trace.over
        self._stages: Final[dict[State, int]] = dict.fromkeys(side.stages, 0)
        self._describe()

    def begin(self, transport: Transport) -> None:
        """See Core.begin. It prepares the tables, and attaches the data path."""
        super().begin(transport)
        self.role.prepare()
        self._data_path.attach(transport.wake)

    def take(self, endpoint: Endpoint, event: Event) -> Step:
        """Give the event to the endpoint, and carry out the effects of its step."""
        step = endpoint.take(event)
        if self._write is not None:
            self._write(endpoint, event, step)
        plan = self._plans.get(step) or self._planned(endpoint, step)
        for reaction, indices in plan.reactions:
            reaction(endpoint, indices)
        owner = endpoint.owner
        owner.status = plan.status
        owner.settled = plan.settled
        if plan.armed is not endpoint.timers:
            self._timers.follow(endpoint, plan.armed, self._now)
        for watcher in owner.watchers:
            watcher()
        return step

    def on_malformed(self, _who: str) -> None:
        """See Core.on_malformed."""
        self.metrics.add("malformed_frames")

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """See Core.on_batch. A frame that the peer may not send is dropped and counted."""
        for frame in batch.frames:
            try:
                self.on_frame(peer, frame)
            except RemoteProtocolError as error:
                self.metrics.add("refused_frames")
                log.warning("node %s: dropped a message of %s about %s: %s", self.name, peer.name,
                            frame.life, error,
                            extra={**self.fields(frame.life), "peer": peer.name})
        self.on_floor(peer, batch.floor)

    def on_frame(self, peer: Peer, frame: AnyFrame) -> None:
        """React to a peer's message. Raises RemoteProtocolError if the peer may not send it."""
        raise NotImplementedError

    def on_floor(self, peer: Peer, floor: int) -> None:
        """React to the peer's floor: it is done with all lives of lower generations."""

    def on_timer(self, name: str, endpoint: Endpoint) -> None:
        """Note the reason for the failure that the end of this wait will cause."""

    def on_turn(self, now: float) -> float | None:
        """See Core.on_turn."""
        pace = self.pace
        pace.part("reports of devices")
        self.on_device()
        pace.part("waits that end")
        for name, endpoint in self._timers.due(now):
            if WAITS[name].again:
                endpoint.owner.repeats += 1
            elif name != "heartbeat":  # the heartbeat has noted its own reason
                self.on_timer(name, endpoint)
            self.take(endpoint, endpoint.automaton.timer(name))
            if not pace.has_time:
                break
        pace.part("hand-overs that waited for room")
        self.on_room()
        pace.part("reports of devices")
        self.again = False  # all reports until now are collected below
        self.on_device()
        self.again = self.again or self.wants_room()
        if self._forgotten:
            self._release_all()
        return self._timers.next()

    def on_end(self) -> None:
        """See Core.on_end. Open hand-overs fail, and the peers are told."""
        for owner in self.open_ends():
            if owner.poll() not in ENDED:
                self.give_up(owner, CLOSED)

    def open_ends(self) -> Iterable[Any]:
        """The handles that may not have ended. For any thread."""
        raise NotImplementedError

    def give_up(self, owner: Any, reason: str) -> None:
        """Abort the hand-over, for this reason."""
        raise NotImplementedError

    def close_handoff(self, owner: Any, reason: str) -> None:
        """Finish a hand-over that has ended; abort one that has not, for this reason."""
        if owner.poll() in ENDED:
            self.finish(owner)
        else:
            self.give_up(owner, reason)

    def finish(self, owner: Any) -> None:
        """Note that the application no longer uses a hand-over that has ended."""

    def besides(
        self, _automaton: Automaton, _state: int
    ) -> Sequence[tuple[Reaction, Indices]]:
        """Further reactions to every step into this state."""
        return ()

    def on_failed(self, endpoint: Endpoint, before: State) -> None:
        """React to the failure of a hand-over. before: its stage before the failure."""

    def on_device(self) -> None:
        """Collect the reports of the data path."""

    def is_late(self) -> bool:
        """Whether the time of this part is up. If so, another turn follows at once."""
        late = not self.pace.has_time
        self.again = self.again or late
        return late

    def wants_room(self) -> bool:
        """Whether a hand-over that waited for room in the data path may begin now."""
        return False

    def on_room(self) -> None:
        """Begin hand-overs that have waited for room in the data path."""

    def declare_gone(self, name: str) -> None:
        """Note that the process of this peer has ended, as the application says.

        Raises LocalProtocolError for a name that was never known here. That ends only the request
        of this turn: it is logged and counted.
        """
        peer = self.peers.get(name)
        if peer is None:
            raise LocalProtocolError(f"{name} was declared gone, but no peer had this name")
        self.calls.end(peer, "it has been declared gone")

    def forget(self, endpoint: Endpoint) -> None:
        """Drop a life about which no peer sends a message any more."""
        del self.lives[self.life(endpoint)]
        if endpoint.owner.released:
            self.release(endpoint)

    def release(self, endpoint: Endpoint) -> None:
        """Drop the endpoint at the end of this turn: no peer sends a message about it any more, and
        its pages are free. By the tables, a late call or message changes nothing.
        """
        self._forgotten.append(endpoint)

    def _release_all(self) -> None:
        for endpoint in self._forgotten:
            owner = endpoint.owner
            owner.on_released, owner.watchers, endpoint.owner = None, (), self._no_owner
            if self._over is not None:
                self._over(endpoint)
        self._forgotten.clear()

    # Stages, metrics and log lines

    def register(self, owner: Any) -> None:
        """Count a new endpoint, in its first stage."""
        self._stages[owner.stage] += 1

    def unregister(self, owner: Any) -> None:
        """Stop counting the endpoint, which is forgotten before it has ended."""
        self._stages[owner.stage] -= 1

    def _enter(self, stage: State, endpoint: Endpoint, _: Indices) -> None:
        owner, stages = endpoint.owner, self._stages
        stages[owner.stage] -= 1
        stages[stage] += 1
        owner.stage, owner.entered = stage, self._now

    def _succeed(self, endpoint: Endpoint, indices: Indices) -> None:
        self._enter(self.side.succeeded, endpoint, indices)
        owner = endpoint.owner
        owner.ended = self._now
        self.metrics.add("handoffs_succeeded")
        self.metrics.add("transfer_seconds", self._now - owner.began)

    def _fail(self, endpoint: Endpoint, indices: Indices) -> None:
        owner, side, before = endpoint.owner, self.side, endpoint.owner.stage
        self._enter(side.failed, endpoint, indices)
        owner.ended = self._now
        owner.reason = owner.blame or "failed"
        transferring = before in side.under_way
        self.metrics.add("transfer_failed_reqs" if transferring else "bootstrap_failed_reqs")
        others = f" with {', '.join(endpoint.peers)}" if endpoint.peers else ""
        log.warning("node %s: %s%s has failed: %s", self.name,
                    endpoint.life or f"room {owner.room}", others, owner.reason,
                    extra=self.fields(endpoint.life, owner.room))
        self.on_failed(endpoint, before)

    def fields(self, life: Life | None, room: int | None = None) -> dict[str, Any]:
        """The fields of a log line about a hand-over."""
        if life is None:
            return {"rank": self.name, "room": room}
        return {"rank": self.name, "room": life.room, "incarnation": life.incarnation,
                "generation": life.generation}

    def _describe(self) -> None:
        metrics, side = self.metrics, self.side
        for name, about, stages in side.queues:
            metrics.gauge(name, about, partial(self._count, stages))
        for stage in side.stages:
            if stage.name not in ("SUCCESS", "FAILED", "GONE"):
                metrics.gauge("num_handoffs", "Hand-overs that have not ended, by state",
                              partial(self._count, (stage,)), state=stage.name.lower())
        metrics.gauge("num_remembered_lives", "Lives about which a peer may still send a message",
                      lambda: len(self.lives))
        metrics.counter("dropped_frames", "Messages not kept for a peer that does not read",
                        lambda: self.calls.dropped_frames)
        metrics.counter("refused_calls", "Calls of the application that the tables do not allow",
                        lambda: self.mistakes)
        metrics.counter("redials", "Broken connections that were opened again",
                        lambda: self.calls.redials)
        metrics.gauge("unheard_peers", "Peers with a broken connection in one direction or both",
                      lambda: sum(bool(peer.mute or peer.deaf) for peer in list(self.peers.values())
                                  if not peer.lost))
        if isinstance(self._data_path, HasMetrics):
            self._data_path.measure(metrics)

    def _count(self, stages: tuple[State, ...]) -> int:
        return sum(self._stages[stage] for stage in stages)

    def on_close(self) -> None:
        """See Core.on_close."""
        self._data_path.close()

    def blame(self, timer: str) -> str:
        """The reason of a failure that this timer causes."""
        return f"{timer} after {self._timers.seconds[timer]:g} s"

    @staticmethod
    def why(endpoint: Endpoint) -> str:
        """The reason of a failure, for the other side."""
        reason: str = endpoint.owner.reason or endpoint.owner.blame or "failed"
        return reason[:REASON_MAX]

    def _planned(self, endpoint: Endpoint, step: Step) -> Plan:
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        frames = [(partial(self._send, self.writers[message]), indices)
                  for message, indices in step.sent]
        found = ((self.reactions.get((symbol, value)), indices)
                 for symbol, indices, value in step.changed)
        automaton, state = endpoint.automaton, step.state
        plan = Plan((*frames, *((r, indices) for r, indices in found if r is not None),
                     *self.besides(automaton, state)),
                    automaton.first_value(self.side.polls, state),
                    automaton.first_value(self.side.settled, state), automaton.armed(state))
        self._plans[step] = plan
        return plan

    def _send(self, writer: Writer, endpoint: Endpoint, indices: Indices) -> None:
        index = indices[2]  # the last index of a life's message is its other end
        peer = self.peers.get(endpoint.peers[index])
        if peer is not None and not peer.lost:
            self.say(peer, writer(endpoint, index))

    def of(self, endpoint: Endpoint, index: int) -> tuple[str, PageLayout | None]:
        """The endpoint that the i-th peer of an endpoint is told to call, and the layout of the
        pages of this node that the peer reads or writes.
        """
        peer = self.peers[endpoint.peers[index]]
        return peer.ours, layout_for(self._data_path, peer.name)

    def connect(self, name: str, endpoint: str) -> Peer:
        """See Core.connect. For a new peer, note whether the data paths can reach each other."""
        known = self.peers.get(name)
        peer = super().connect(name, endpoint)
        if peer is not known:
            peer.barred = barred(self._data_path, endpoint)
        return peer

    def life(self, endpoint: Endpoint) -> Life:
        """The life of the endpoint. Raises LocalProtocolError if it is not connected to a peer."""
        if endpoint.life is None:
            raise LocalProtocolError(f"{endpoint!r} has no life, because no peer has met it")
        return endpoint.life
