"""The endpoints of a node: they take events, and the effects of their steps are carried out here.

The parts of the node say which effects those are (part.py): frames of messages, reactions to
changed variables, and the reason that a timer gives for a failure.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from pdproto.ground.layout import Indices
from pdproto.ground.structure import table_digest
from pdproto.net import threads
from pdproto.node.core import Core
from pdproto.node.handle import log_fields
from pdproto.node.part import Part, Reaction, Turn, Writer
from pdproto.node.plans import Plans
from pdproto.node.ports import Transport
from pdproto.node.sides import Side
from pdproto.node.timers import Timers
from pdproto.runtime import checked
from pdproto.runtime.automaton import Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.role import Role
from pdproto.runtime.trace import StepObserver
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import State, Symbol

log = logging.getLogger("pdproto.node")


def name_of(stage: State) -> str:
    """The name of a stage in metrics and answers."""
    return stage.name.lower()


class EndpointStages:
    """The stages of one node's endpoints. The owner of an endpoint has its stage, and the times of
    its changes.

    on_failed: called with an endpoint that fails, and with its stage before the failure.
    """

    def __init__(
        self, core: Core, side: Side, on_failed: Callable[[Endpoint, State], None]
    ) -> None:
        metrics = core.metrics
        self._core: Final = core
        self._side: Final = side
        self._metrics: Final = metrics
        self._on_failed: Final = on_failed
        self._counts: Final[dict[State, int]] = dict.fromkeys(side.stages, 0)
        for name, about, stages in side.queues:
            metrics.gauge(name, about, partial(self._count, stages))
        for stage in side.stages:
            if stage.name not in ("SUCCESS", "FAILED", "GONE"):
                metrics.gauge("num_handoffs", "Hand-overs that have not ended, by state",
                              partial(self._count, (stage,)), state=name_of(stage))

    @property
    def reactions(self) -> Mapping[tuple[Symbol, Value], Reaction]:
        """The reactions to changes of the stage; see Part."""
        side = self._side
        found: dict[tuple[Symbol, Value], Reaction] = {
            (side.stage, stage): partial(self._enter, stage) for stage in side.stages}
        found[side.stage, side.succeeded] = self._succeed
        found[side.stage, side.failed] = self._fail
        return found

    def register(self, owner: Any) -> None:
        """Count a new endpoint, in its first stage."""
        self._counts[owner.stage] += 1

    def unregister(self, owner: Any) -> None:
        """Stop counting the endpoint, which is forgotten before it has ended."""
        self._counts[owner.stage] -= 1

    def _enter(self, stage: State, endpoint: Endpoint, _: Indices) -> None:
        owner, counts = endpoint.owner, self._counts
        counts[owner.stage] -= 1
        counts[stage] += 1
        owner.stage, owner.entered = stage, self._core.turned

    def _succeed(self, endpoint: Endpoint, indices: Indices) -> None:
        self._enter(self._side.succeeded, endpoint, indices)
        owner = endpoint.owner
        owner.ended = owner.entered
        self._metrics.add("handoffs_succeeded")
        self._metrics.add("transfer_seconds", owner.ended - owner.began)

    def _fail(self, endpoint: Endpoint, indices: Indices) -> None:
        owner, side, before = endpoint.owner, self._side, endpoint.owner.stage
        self._enter(side.failed, endpoint, indices)
        owner.ended = owner.entered
        owner.reason = owner.blame or "failed"
        transferring = before in side.under_way
        self._metrics.add("transfer_failed_reqs" if transferring else "bootstrap_failed_reqs")
        others = f" with {', '.join(endpoint.peers)}" if endpoint.peers else ""
        log.warning("node %s: %s%s has failed: %s", self._core.name,
                    endpoint.life or f"room {owner.room}", others, owner.reason,
                    extra=log_fields(self._core.name, endpoint.life, owner.room))
        self._on_failed(endpoint, before)

    def _count(self, stages: tuple[State, ...]) -> int:
        return sum(self._counts[stage] for stage in stages)


TimerEnd: TypeAlias = Callable[[str, Endpoint], None]


class _NoOwner:
    """Replaces the owner of an endpoint that is over. Its status is not used."""

    status = settled = KVPoll.BOOTSTRAPPING
    watchers: Final = ()
    untold: Final = False


def _count_repeat(_timer: str, endpoint: Endpoint) -> None:
    """A timer whose rows send a message again has ended."""
    endpoint.owner.repeats += 1


class Endpoints:
    """See above. Only the node's loop calls the methods.

    role: the tables that the endpoints run. waits: seconds by name of timer, in place of the
    defaults. lives: the endpoint of each life. stages: counts the endpoints by stage. seconds: of
    the timers.
    """

    def __init__(
        self, core: Core, side: Side, role: Role, waits: Mapping[str, float] | None,
        trace: StepObserver | None,
    ) -> None:
        self.lives: Final[dict[Life, Endpoint]] = {}
        self.role: Final = role
        self.stages: Final = EndpointStages(core, side, self._fail)
        self._core: Final = core
        self._plans: Final = Plans(core, side, self._send)
        self._known: Final = self._plans.known
        self._timers: Final[Timers[Endpoint]] = Timers(
            waits, lambda endpoint, since, now: core.connections.suspicions.stood(
                endpoint.peers, since, now))
        self.seconds: Final = self._timers.seconds
        self._no_owner: Final = _NoOwner()
        self._released: Final[list[Endpoint]] = []  # in this turn
        self._write: Final = None if trace is None else trace.write
        self._over: Final = None if trace is None else trace.over
        # The incarnation and the floor of each batch say these two of every life.
        self.part: Final = Part(
            "endpoints", reactions=self.stages.reactions, implied=(ends.gone, ends.sink_over),
            begin=self._begin, due=self._timers.next,
            turns={Turn.WAITS: self._end_waits, Turn.LAST: self._let_go})

    def _begin(self, _transport: Transport) -> None:
        """Compute here what a turn of the loop would take milliseconds for."""
        self.role.prepare()
        if self._write is not None:
            table_digest(self.role.table)

    def take(self, endpoint: Endpoint, event: Event) -> Step:
        """Give the event to the endpoint, and carry out the effects of its step."""
        # As `Endpoint.take`, whose call takes longer, ten times for a hand-over.
        step = event.steps.get(endpoint.state) or endpoint.automaton.take(event, endpoint.state)
        endpoint.state = step.state
        if self._write is not None:
            self._write(endpoint, event, step)
        plan = self._known.get(step) or self._plans.learn(endpoint.automaton, step)
        for reaction, indices in plan.reactions:
            try:
                reaction(endpoint, indices)
            except BaseException as error:  # the others, too, are effects of a step that was taken
                if threads.is_of_program(error):
                    raise
                self._core.on_defect(error)
        owner = endpoint.owner
        owner.status = plan.status
        owner.settled = plan.settled
        if plan.armed is not endpoint.timers:
            self._timers.follow(endpoint, plan.armed, self._core.now)
        if owner.untold:
            self.tell_released(owner)
        for watcher in owner.watchers:
            self._core.tell("watcher", watcher)
        return step

    def tell_released(self, owner: Any) -> None:
        """Tell the application that the pages are free, once."""
        if owner.untold:
            owner.untold = False
            if owner.on_released is not None:
                self._core.tell("on_released", owner.on_released)

    def call(self, endpoint: Endpoint, name: str) -> None:
        """Give the endpoint a call of its table, which a part has declared."""
        self.take(endpoint, endpoint.automaton.call(name))

    @staticmethod
    def life(endpoint: Endpoint) -> Life:
        """The life of the endpoint. Raises LocalProtocolError if it is not connected to a peer."""
        if endpoint.life is None:
            raise LocalProtocolError(f"{endpoint!r} has no life, because no peer has met it")
        return endpoint.life

    # Timers

    def _end_waits(self, now: float) -> None:
        if not self._timers.is_due(now):
            return
        self._core.pace.part("waits that end")
        timers = self._core.parts.timers
        for name, endpoint in self._timers.due(now):
            timers[name](name, endpoint)
            self.take(endpoint, endpoint.automaton.timer(name))
            if not self._core.pace.has_time:
                break

    @staticmethod
    def timers(fails: TimerEnd) -> Mapping[str, TimerEnd]:
        """All waits of endpoints. fails: notes the reason of a failure that a timer causes."""
        return {**{name: _count_repeat if wait.again else fails for name, wait in WAITS.items()},
                "heartbeat": lambda *_: None}  # it follows from a loss, whose reason has been noted

    def blame(self, timer: str) -> str:
        """The reason of a failure that this timer causes."""
        return f"{timer} after {self.seconds[timer]:g} s"

    def repeat_now(self, endpoint: Endpoint) -> None:
        """Repeat messages at once, because they may be lost."""
        self._timers.fire_now(endpoint, self._core.now)

    def stop_timers(self, endpoint: Endpoint) -> None:
        """Stop the timers of an endpoint that another replaces."""
        self._timers.follow(endpoint, (), self._core.now)

    # Failures

    def _fail(self, endpoint: Endpoint, before: State) -> None:
        for failed in self._core.parts.failed:
            failed(endpoint, before)

    @staticmethod
    def why(endpoint: Endpoint) -> str:
        """The reason of a failure, for the other side."""
        reason: str = endpoint.owner.reason or endpoint.owner.blame or "failed"
        return checked.reason(reason)

    # The end of a life

    def forget(self, endpoint: Endpoint) -> None:
        """Drop a life about which no peer sends a message any more."""
        del self.lives[self.life(endpoint)]
        for forgotten in self._core.parts.forgotten:
            forgotten(endpoint)
        if endpoint.owner.released:
            self.release(endpoint)

    def release(self, endpoint: Endpoint) -> None:
        """Drop the endpoint at the end of this turn: no peer sends a message about it any more, and
        its pages are free. By the tables, a late call or message changes nothing.
        """
        self._released.append(endpoint)

    def is_dropped(self, owner: Any) -> bool:
        """Whether this is the owner of an endpoint that has been dropped."""
        return owner is self._no_owner

    def _let_go(self, _now: float) -> None:
        for endpoint in self._released:
            owner = endpoint.owner
            owner.on_released, owner.watchers, endpoint.owner = None, (), self._no_owner
            if self._over is not None:
                self._over(endpoint)
        self._released.clear()

    # Messages

    def _send(self, writer: Writer, endpoint: Endpoint, indices: Indices) -> None:
        index = indices[2]  # the last index of a life's message is its other end
        core = self._core
        peer = core.peers.get(endpoint.peers[index])
        if peer is not None and not peer.lost:
            core.say(peer, writer(endpoint, index))
