"""The sinks of a prefill rank: their messages, the answers to them, and their losses."""

from collections.abc import Callable
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.capabilities import Capabilities
from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import BOOTSTRAP
from pdproto.node.part import Part
from pdproto.node.peer import Peer
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.remembered_lives import RememberedLives
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.sides import PREFILL
from pdproto.runtime import checked
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.endpoint import Endpoint
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
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.symbols import State


class Sinks:
    """The table of the source decides (spec/handoff/source.py). This part makes its events of what
    sinks send, and carries out the effects of its steps.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, senders: Senders, binding: Binding,
        remembered: RememberedLives, capabilities: Capabilities,
    ) -> None:
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._senders: Final = senders
        self._binding: Final = binding
        self._remembered: Final = remembered
        self._capabilities: Final = capabilities
        life, why = endpoints.life, endpoints.why
        self.part: Final = Part(
            "sinks",
            frames={Introduce: self._introduced, Publish: self._published, Abort: self._aborted},
            writers={
                ends.expecting: lambda e, _: Expecting(life(e)),
                ends.done: lambda e, _: e.owner.done(life(e)),
                ends.failed: lambda e, _: Failed(life(e), why(e), e.owner.transient),
                ends.abort_ack: lambda e, _: AbortAck(life(e)),
                ends.drained: lambda e, _: Drained(life(e)),
            },
            reactions={(ends.kv, False): self._release},
            states=[(_is_bootstrapped, self._note_bootstrapped)],
            timers=endpoints.timers(self._note_timeout), failed=self._settle,
            calls={"miss_sink": self._miss}, floor=self._raise_floor,
            overdue=self._note_overdue, lost=self._lose, unsaid=self._unsaid)

    def put(self, sender: Sender) -> None:
        """Begin a hand-over that the router has put here; its sinks may have come before."""
        self._binding.put(sender)
        if sender.endpoint.value(ends.kv, (0, 0)) is False:
            self._release(sender.endpoint, ())  # the sink aborted first: no page was read
            self._endpoints.tell_released(sender)
        elif sender.misfit:
            self._senders.give_up(sender, sender.misfit)

    # Messages

    def _introduced(self, peer: Peer, frame: Introduce) -> None:
        endpoint = self._met(peer, frame)
        if endpoint is not None:
            index = endpoint.peers.index(peer.name)
            self._endpoints.take(endpoint, endpoint.automaton.message(
                ends.introduce, (index, 0, 0)))
            self._compare(endpoint.owner, peer.name, frame.layout)

    def _published(self, peer: Peer, frame: Publish) -> None:
        endpoint = self._met(peer, frame)
        if endpoint is not None:
            automaton, index = endpoint.automaton, endpoint.peers.index(peer.name)
            endpoint.owner.published(index, frame.address, frame.pages)
            carried = automaton.bits(ends.address, (index, 0, 0))
            self._endpoints.take(endpoint, automaton.message(
                ends.publish, (index, 0, 0), carried))
            self._compare(endpoint.owner, peer.name, frame.layout)

    def _met(self, peer: Peer, frame: Introduce | Publish) -> Endpoint | None:
        """The endpoint of a life that a sink introduces; it counts the sinks that are named."""
        if frame.earlier:
            self._binding.meet_earlier(peer, frame)
        endpoint = self._binding.endpoint_of(peer, frame.life, type(frame))
        if endpoint is not None:
            named = frame.sinks if peer.name in frame.sinks else (*frame.sinks, peer.name)
            if named != endpoint.peers:
                endpoint.owner.endpoint.meet(named)
            self._binding.wait(frame.life, once=frame.once)
        return endpoint

    def _aborted(self, peer: Peer, frame: Abort) -> None:
        endpoint = self._binding.endpoint_of(peer, frame.life, Abort)
        if endpoint is not None:
            if endpoint.peers != (peer.name,):
                endpoint.owner.endpoint.meet((peer.name,))
            endpoint.owner.note(peer.says(frame.reason), transient=frame.transient)
            index = endpoint.peers.index(peer.name)
            self._endpoints.take(endpoint, endpoint.automaton.message(ends.abort, (index, 0, 0)))

    def _compare(self, sender: Sender, sink: str, layout: PageLayout | None) -> None:
        """Fail the hand-over if the page layouts of both ends differ, once its sender is open."""
        ours = self._capabilities.layout_for(sink)
        sender.misfit = misfit(ours, self._core.name, sink, layout,
                               self._capabilities.conversion) or sender.misfit
        if sender.misfit and sender.stage is not Sending.UNKNOWN:
            self._senders.give_up(sender, sender.misfit)

    def _unsaid(self, peer: Peer, frame: AnyFrame, why: str) -> None:
        """A message could not be sent. The table takes its hand-over for done: tell the sink, which
        would otherwise wait for its clock.
        """
        if isinstance(frame, Done):
            self._core.say(peer, Failed(frame.life, checked.reason(why)))

    # Losses

    def _lose(self, peer: Peer, why: str) -> None:
        """The ranks of a group end together, and so do all their hand-overs."""
        self._remembered.lose(peer.name, peer.owner, self._core.now)
        self._remembered.each_open(peer.owner, lambda life: self._be_over(
            life, None, f"lost connection to {peer.name}: {why}", transient=True))

    def _note_overdue(self, peer: Peer, why: str) -> None:
        self._remembered.each_open(
            peer.owner, lambda life: self._miss(life, peer.name, f"{peer.name}: {why}"))

    def _miss(self, life: Life, sink: str, why: str) -> None:
        """Tell a life that it waits no longer for this sink."""
        endpoint = self._endpoints.lives[life]
        if sink in endpoint.peers:
            owner, before = endpoint.owner, (endpoint.owner.blame, endpoint.owner.transient)
            if not owner.blame:
                owner.note(why, transient=True)
            self._endpoints.take(endpoint, endpoint.automaton.call(
                "miss_sink", (endpoint.peers.index(sink),)))
            if owner.reason is None:  # the table waits on, and what ends it later is the reason
                owner.blame, owner.transient = before

    def _raise_floor(self, peer: Peer, floor: int) -> None:
        self._remembered.raise_floor(peer.name, peer.owner, floor, self._be_given_up)

    def _be_given_up(self, life: Life, sink: str) -> None:
        self._be_over(life, sink, f"{sink} has given it up")

    def _be_over(
        self, life: Life, sink: str | None, why: str, *, transient: bool = False
    ) -> None:
        """Give a life the event that this sink, or every sink (None), is done with it."""
        endpoint = self._endpoints.lives[life]
        owner, sinks = endpoint.owner, endpoint.peers
        over = [(index, 0, 0) for index, name in enumerate(sinks) if sink in (None, name)]
        if not over:
            return  # it is of other ranks of the group
        if not owner.blame:
            owner.note(why, transient=transient)
        if owner.stage is Sending.UNKNOWN:
            self._binding.lose_sink(life, sinks[over[0][0]])
        self._endpoints.take(endpoint, endpoint.automaton.noted_message(ends.sink_over, *over))

    # Effects of steps

    def _note_bootstrapped(self, endpoint: Endpoint, _: Indices) -> None:
        """Every sink has published its pages. A repeated message comes here again."""
        if endpoint.owner.status is KVPoll.BOOTSTRAPPING:
            self._senders.injection.draw(BOOTSTRAP, endpoint)

    def _release(self, endpoint: Endpoint, _: Indices) -> None:
        sender: Sender = endpoint.owner
        sender.note_released()
        self._remembered.settle(endpoint.life)

    def _settle(self, endpoint: Endpoint, _before: State) -> None:
        """The hand-over has failed."""
        self._remembered.settle(endpoint.life)

    def _note_timeout(self, timer: str, endpoint: Endpoint) -> None:
        endpoint.owner.note(self._endpoints.blame(timer), transient=True)


def _is_bootstrapped(automaton: Automaton, state: int) -> bool:
    return automaton.first_value(PREFILL.polls, state) is KVPoll.WAITING_FOR_INPUT


def misfit(
    ours: PageLayout | None, source: str, sink: str, theirs: PageLayout | None,
    conversion: Callable[[PageLayout], str] = lambda _: "",
) -> str:
    """Why the pages of a source do not fit those of a sink, with the layouts of both.

    Empty if they fit, or if one layout is unknown. ours: the layout of the source's pages. source,
    sink: the names of the two nodes. theirs: the layout that the sink has sent. conversion: see
    Converts.
    """
    if ours is None or theirs is None or _fit(ours, theirs):
        return ""
    told = f"pages do not fit: {source} has {ours.told}, and {sink} {theirs.told}"
    if setting := conversion(theirs):
        told += f": page sizes differ, convertible: open the data paths of both with {setting}"
    return told


def _fit(ours: PageLayout, theirs: PageLayout) -> bool:
    return ours.digest == theirs.digest and all(
        here == there or not (here and there)
        for here, there in zip(ours.buffers, theirs.buffers, strict=False))
