"""A node with endpoints: they take events, and the node carries out the effects of their steps."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pdproto.ground.layout import Indices
from pdproto.node.core import Core
from pdproto.node.data_path import (
    Converts,
    CountsBytes,
    DataPath,
    HasLayout,
    HasMetrics,
    MarksPages,
    why_broken,
)
from pdproto.node.endpoint_stages import EndpointStages, log_fields
from pdproto.node.faults import BOOTSTRAP, FAULTS, TRANSFER, Faults, reason_of
from pdproto.node.fit import barred
from pdproto.node.handle import ENDED
from pdproto.node.link import Link
from pdproto.node.metrics import Metrics
from pdproto.node.peer import Peer
from pdproto.node.plans import Plans, Reaction, Writer
from pdproto.node.ports import Transport
from pdproto.node.sides import Side
from pdproto.node.timers import Timers
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.batches import Batch
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import REASON_MAX
from pdproto.runtime.role import Role
from pdproto.runtime.trace import StepObserver
from pdproto.runtime.wire import AnyFrame, Life, PageLayout
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")

CLOSED: Final = "the node has been closed"


class _NoOwner:
    """Replaces the owner of an endpoint that is over. Its status is not used."""

    status = settled = KVPoll.BOOTSTRAPPING
    watchers: Final = ()


class Node(Core):
    """A core with endpoints. It acts on each step: on messages, variables and timers, by name.

    plans: its writers make the frames of messages, and its reactions act on changed variables.
    stages: counts the endpoints by stage. lives: the endpoint of each life. fields: gives the
    fields of a log line about a life. faults: those that the operator injects.
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
        trace: StepObserver | None,
    ) -> None:
        super().__init__(name, link, incarnation)
        self.metrics: Final = Metrics({"node": name, "side": side.name})
        self.lives: Final[dict[Life, Endpoint]] = {}
        self.faults: Final = Faults()
        self.plans: Final = Plans(side, self._send, self.besides)
        self._plans: Final = self.plans.known
        self.stages: Final = EndpointStages(
            name, side, self.metrics, lambda: self._now, self.on_failed)
        self.plans.reactions.update(self.stages.reactions)
        self.fields: Final = partial(log_fields, name)
        self.side: Final = side
        self._data_path: Final = data_path
        self.broken: Final = partial(why_broken, data_path, name)  # for any thread
        self.bytes_of: Final[Callable[..., int]] = (
            data_path.bytes_of if isinstance(data_path, CountsBytes) else lambda *_: 0)
        self.mark: Final[Callable[[Sequence[int]], tuple[int, ...]]] = (
            data_path.mark if isinstance(data_path, MarksPages) else tuple)
        # None for a data path that does not know the layout of its pages.
        self.layout_for: Final[Callable[[str], PageLayout | None]] = (
            data_path.layout_for if isinstance(data_path, HasLayout) else lambda _: None)
        self.conversion: Final[Callable[[PageLayout], str]] = (
            data_path.conversion if isinstance(data_path, Converts) else lambda _: "")
        # Called with the handle of a life that has just been forgotten, for a drain.
        self.on_forgotten: Callable[[Any], None] = lambda _: None
        self._no_owner: Final = _NoOwner()
        self._forgotten: Final[list[Endpoint]] = []  # in this turn
        self._struck: Final[dict[str, list[Endpoint]]] = {fault: [] for fault in FAULTS}
        self._timers: Final[Timers[Endpoint]] = Timers(waits)
        self._write: Final = None if trace is None else trace.write
        self._over: Final = None if trace is None else trace.over
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
        plan = self._plans.get(step) or self.plans.learn(endpoint.automaton, step)
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

    def on_malformed(self, _sender: str) -> None:
        """See Core.on_malformed."""
        self.metrics.add("malformed_frames")

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """See Core.on_batch. A frame that the peer may not send is dropped and counted."""
        for frame in batch.frames:
            try:
                self.on_frame(peer, frame)
            except RemoteProtocolError as error:
                self.metrics.add("refused_frames")
                if count := self.repeats.told(f"{peer.name} {error}"):
                    log.warning("node %s: dropped a message of %s about %s: %s (%d so far)",
                                self.name, peer.name, frame.life, error, count,
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
        if self._timers.is_due(now):
            pace.part("waits that end")
            self._end_waits(now)
        if self._struck[BOOTSTRAP]:
            self._fail_struck(BOOTSTRAP)
        pace.part("hand-overs that waited for room")
        self.on_room()
        if self._struck[TRANSFER]:
            self._fail_struck(TRANSFER)
        pace.part("reports of devices")
        self.again = False  # all reports until now are collected below
        self.on_device()
        self.again = self.again or self.wants_room()
        if self._forgotten:
            self._release_all()
        return self._timers.next()

    def _end_waits(self, now: float) -> None:
        for name, endpoint in self._timers.due(now):
            if WAITS[name].again:
                endpoint.owner.repeats += 1
            elif name != "heartbeat":  # the heartbeat has noted its own reason
                self.on_timer(name, endpoint)
            self.take(endpoint, endpoint.automaton.timer(name))
            if not self.pace.has_time:
                break

    def on_end(self) -> None:
        """See Core.on_end. Open hand-overs fail, and the peers are told."""
        for owner in self.open_ends():
            if owner.poll() not in ENDED:
                self.give_up(owner, CLOSED)

    def open_ends(self) -> Iterable[Any]:
        """The handles that may not have ended. For any thread."""
        raise NotImplementedError

    def is_awaited(self, owner: Any) -> bool:
        """Whether a peer that is not lost may still send a message about the hand-over."""
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

    def draw(self, fault: str, endpoint: Endpoint) -> None:
        """Draw whether this fault strikes the hand-over. If so, it fails before the turn ends."""
        if self.faults.strikes(fault):
            self._struck[fault].append(endpoint)

    def _fail_struck(self, fault: str) -> None:
        """Fail the hand-overs that this fault has struck in this turn."""
        for endpoint in self._struck[fault]:
            owner = endpoint.owner
            if owner is not self._no_owner and owner.status not in ENDED:
                self.metrics.add("injected_faults")
                self.give_up(owner, reason_of(fault))
        self._struck[fault].clear()

    def declare_gone(self, name: str) -> None:
        """Note that the process of this peer has ended, as the application says.

        Raises LocalProtocolError for a name that was never known here. That ends only the request
        of this turn: it is logged and counted.
        """
        peer = self.peers.get(name)
        if peer is None:
            raise LocalProtocolError(f"{name} was declared gone, but no peer had this name")
        self.connections.end(peer, "it has been declared gone")

    def forget(self, endpoint: Endpoint) -> None:
        """Drop a life about which no peer sends a message any more."""
        del self.lives[self.life(endpoint)]
        self.on_forgotten(endpoint.owner)
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

    def remembered(self) -> int:
        """How many lives there are about which a peer may still send a message. For any thread."""
        return len(self.lives)

    # Metrics and log lines

    def _describe(self) -> None:
        metrics = self.metrics
        metrics.gauge("num_remembered_lives", "Lives about which a peer may still send a message",
                      self.remembered)
        metrics.counter("dropped_frames", "Messages not kept for a peer that does not read",
                        lambda: self.connections.dropped_frames)
        metrics.counter("refused_calls", "Calls of the application that the tables do not allow",
                        lambda: self.mistakes)
        metrics.counter("redials", "Broken connections that were opened again",
                        lambda: self.connections.redials)
        metrics.gauge("unheard_peers", "Peers with a broken connection in one direction or both",
                      lambda: sum(bool(peer.mute or peer.deaf) for peer in list(self.peers.values())
                                  if not peer.lost))
        for name in FAULTS:
            metrics.gauge("fault_probability", "The share of hand-overs that fail on purpose, by "
                          "fault", partial(self.faults.probability, name), fault=name)
        if isinstance(self._data_path, HasMetrics):
            self._data_path.measure(metrics)

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
        return peer.ours, self.layout_for(peer.name)

    def connect(self, name: str, endpoint: str) -> Peer:
        """See Core.connect. For a new peer, note whether the data paths can reach each other."""
        known = self.peers.get(name)
        if known is not None and known.endpoint == endpoint and not known.lost:
            return known
        peer = super().connect(name, endpoint)
        if peer is not known:
            peer.barred = barred(self._data_path, endpoint)
        return peer

    def life(self, endpoint: Endpoint) -> Life:
        """The life of the endpoint. Raises LocalProtocolError if it is not connected to a peer."""
        if endpoint.life is None:
            raise LocalProtocolError(f"{endpoint!r} has no life, because no peer has met it")
        return endpoint.life
