"""The sources of a decode rank: their messages, the messages to them, and their losses."""

from collections.abc import Mapping
from typing import Final

from pdproto.node.capabilities import Capabilities
from pdproto.node.core import Core
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.receiver import Receiver
from pdproto.node.decode.receivers import Receivers
from pdproto.node.decode.sink_memory import SinkMemory
from pdproto.node.decode.verification import Verification
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import BOOTSTRAP
from pdproto.node.part import Part
from pdproto.node.peer import Peer
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import (
    Abort,
    AbortAck,
    AnyFrame,
    Done,
    Drained,
    Expecting,
    Failed,
    Introduce,
    Life,
    PageLayout,
    Publish,
)
from pdproto.spec.handoff import ends


class Sources:
    """The table of the sink decides (spec/handoff/sink.py). This part makes its events of what
    sources send, and carries out the effects of its steps.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, lives: NumberedLives, receivers: Receivers,
        memory: SinkMemory, verification: Verification, capabilities: Capabilities,
    ) -> None:
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._lives: Final = lives
        self._receivers: Final = receivers
        self._memory: Final = memory
        self._verification: Final = verification
        self._layout_for: Final = capabilities.layout_for
        self._of_peer: Final[dict[str, dict[Life, Endpoint]]] = {}
        self.part: Final = Part(
            "sources",
            frames={Expecting: self._heard, Done: self._done, Failed: self._failed,
                    AbortAck: self._heard, Drained: self._heard},
            # An address makes its source know all that an introduction does (the row `learn`).
            replaces={Publish: Introduce},
            writers={ends.introduce: self._introduction, ends.publish: self._publication,
                     ends.abort: self._abort},
            reactions={(ends.aware, True): lambda endpoint, _: lives.conclude(endpoint)},
            timers=endpoints.timers(self._note_timeout), calls={"miss_source": self._miss},
            overdue=self._note_overdue, lost=self._lose, returned=self._repeat,
            forgotten=self._forget)

    def introduce(self, receiver: Receiver, sources: Mapping[str, str], *, placed: bool) -> None:
        """Begin a life with these sources. placed: it has its pages."""
        endpoint, life = receiver.endpoint, receiver.life
        nowhere, why_not = dict[str, str](), ""
        for name, where in sources.items():
            try:  # first, because an older peer of this name elsewhere is lost by that
                why_not = self._core.connect(name, where).barred or why_not
            except RemoteProtocolError as error:
                nowhere[name] = str(error)
            self._of_peer.setdefault(name, {})[life] = endpoint
        self._receivers.begin(receiver)
        self._receivers.injection.draw(BOOTSTRAP, endpoint)
        self._memory.meet(receiver)
        for name, why in nowhere.items():
            self._end(endpoint, name, why)
        if why_not:
            self._receivers.give_up(receiver, why_not)
        elif placed:
            self._memory.want(receiver)

    # Messages of sources

    def _counted(self, peer: Peer, frame: AnyFrame) -> Receiver | None:
        """The receiver that a frame is about; None if the frame is of an earlier life or
        incarnation."""
        endpoint = self._endpoints.lives.get(frame.life)
        if endpoint is None:
            self._core.metrics.add("stale_frames")
            return None
        if peer.name not in endpoint.peers:
            raise RemoteProtocolError(f"{peer.name} is no source of this life")
        receiver: Receiver = endpoint.owner
        if not receiver.incarnations.counts(peer.name, peer.incarnation):
            self._core.metrics.add("stale_frames")
            return None
        return receiver

    def _heard(self, peer: Peer, frame: Expecting | AbortAck | Drained) -> None:
        if (receiver := self._counted(peer, frame)) is not None:
            self._lives.hear(receiver.endpoint, frame, peer.name)

    def _failed(self, peer: Peer, frame: Failed) -> None:
        if (receiver := self._counted(peer, frame)) is not None:
            receiver.note(peer.says(frame.reason), transient=frame.transient)
            self._lives.hear(receiver.endpoint, frame, peer.name)

    def _done(self, peer: Peer, frame: Done) -> None:
        if (receiver := self._counted(peer, frame)) is None:
            return
        if self._verification.is_due(receiver, peer.name):
            self._verification.begin(receiver, peer.name, frame)
        else:
            self._lives.hear(receiver.endpoint, frame, peer.name)

    # Messages to sources

    def _introduction(self, endpoint: Endpoint, index: int) -> Introduce:
        return Introduce(self._endpoints.life(endpoint), endpoint.owner.sinks,
                         *self._own(endpoint, index), self._lives.earlier(endpoint, index),
                         endpoint.owner.once)

    def _publication(self, endpoint: Endpoint, index: int) -> Publish:
        life, receiver = self._endpoints.life(endpoint), endpoint.owner
        source = endpoint.peers[index]
        return Publish(life, receiver.addresses[source], len(receiver.page_lists[index]),
                       receiver.sinks, *self._own(endpoint, index),
                       self._lives.earlier(endpoint, index), receiver.once)

    def _abort(self, endpoint: Endpoint, index: int) -> Abort:
        self._core.metrics.add("aborts_sent")
        return Abort(self._endpoints.life(endpoint), self._endpoints.why(endpoint),
                     self._own(endpoint, index)[0], endpoint.owner.transient)

    def _own(self, endpoint: Endpoint, index: int) -> tuple[str, PageLayout | None]:
        """Where the i-th source can call this node, and the layout of the pages that it writes."""
        peer = self._core.peers[endpoint.peers[index]]
        return peer.ours, self._layout_for(peer.name)

    # Losses and timers

    def _note_overdue(self, peer: Peer, why: str) -> None:
        self._core.backlog.each(
            self._of(peer), lambda endpoint: self._miss(endpoint, peer.name, why))

    def _miss(self, endpoint: Endpoint, source: str, why: str) -> None:
        """Tell a life that it waits no longer for this source."""
        if self._is_open(endpoint):
            endpoint.owner.note(f"{source}: {why}", transient=True)
            self._endpoints.take(endpoint, endpoint.automaton.call(
                "miss_source", (endpoint.peers.index(source),)))
            self._lives.conclude(endpoint)

    def _lose(self, peer: Peer, why: str) -> None:
        def lose(endpoint: Endpoint) -> None:
            if self._is_open(endpoint):
                self._end(endpoint, peer.name, why)

        self._core.backlog.each(self._of(peer), lose)

    def _of(self, peer: Peer) -> list[Endpoint]:
        """The lives that this peer is a source of."""
        return list(self._of_peer.get(peer.name, {}).values())

    def _is_open(self, endpoint: Endpoint) -> bool:
        """Whether the life has not been dropped meanwhile."""
        life = endpoint.life
        return life is not None and self._endpoints.lives.get(life) is endpoint

    def _end(self, endpoint: Endpoint, source: str, why: str) -> None:
        """Give a life the event that one of its sources is gone."""
        endpoint.owner.note(f"lost connection to {source}: {why}", transient=True)
        index = endpoint.peers.index(source)
        self._endpoints.take(endpoint, endpoint.automaton.noted_message(ends.gone, (index, 0, 0)))

    def _repeat(self, peer: Peer) -> None:
        """The peer can be reached again. Messages in both directions may be lost."""
        self._core.backlog.each(self._of(peer), self._endpoints.repeat_now)

    def _note_timeout(self, timer: str, endpoint: Endpoint) -> None:
        """The reason also names sources that have sent nothing yet: a router may have asked decode
        alone.
        """
        silent = [peer for peer in endpoint.peers if not self._memory.has_spoken(peer)]
        late = [] if silent or timer != "transfer_timeout" else [
            peer for peer in endpoint.peers if peer not in endpoint.owner.deliveries]
        of = f"; nothing was heard of {', '.join(silent)}" if silent else (
            f"; not sent by {', '.join(late)}: the request has not come there, or takes longer"
            if late else "")
        endpoint.owner.note(self._endpoints.blame(timer) + of, transient=True)

    def _forget(self, endpoint: Endpoint) -> None:
        for source in endpoint.peers:
            del self._of_peer[source][self._endpoints.life(endpoint)]
