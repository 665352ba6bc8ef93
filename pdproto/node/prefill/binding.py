"""Which request of a room belongs to which life, on a prefill rank.

Rule 1: the table of the rank binds a sender to a life that a sink introduces (binding_rooms.py). A
        sender without a life waits for one, and a life for a sender.
Rule 2: a use is a number that names one request of a room on all ranks of a prefill server. The
        room may be opened again, for a retry or for another sample of a prompt. All ranks open the
        same requests in the same order, so the first opening is use 0 on every rank, the next use
        1. A source sends the use with its last message, and a sink whose sources name different
        uses fails the request (decode/verification.py): it would be made of two.
Rule 3: a life without a sender has an endpoint too, so that its sinks get answers. Its owner is a
        sender that no application has opened; the sender that is bound adopts it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.prefill.binding_rooms import BindingRooms
from pdproto.node.prefill.remembered_lives import RememberedLives
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.prefill.waiting_senders import ByRoom, EarlyLives
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import USED_ROOMS_MAX
from pdproto.runtime.wire import Abort, Frame, Introduce, Life, Publish
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.language.symbols import State


class Uses:
    """Counts how often each room has been opened here.

    most: how many rooms are remembered. A room is forgotten when so many others have been opened
    since then, and not before half as many have.
    """

    def __init__(self, most: int = USED_ROOMS_MAX) -> None:
        self._half: Final = most // 2
        self._recent: dict[int, int] = {}
        self._before: dict[int, int] = {}  # the rooms until `_recent` was begun

    def next(self, room: int) -> int:
        """The use of a sender that is opened now: 0 for the first sender of its room."""
        use = self._recent.get(room, self._before.get(room, -1)) + 1
        self._recent[room] = use
        if len(self._recent) == self._half:
            self._before, self._recent = self._recent, {}
        return use


class Binding:
    """See the rules above.

    refuses: returns why no sender will open a room that a sink introduces; None if one may. early:
    lives without a sender. on_ended_early: the request of this endpoint is that of a sender that
    has ended before. on_dropped: no sink may come any more for a sender that has failed. further:
    answers a life without a sender, if its room is open to several; returns whether it has. waits:
    a sink has introduced an early life. bound: an early life has a sender. over: a sender ends with
    a life that has ended before.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, senders: Senders, remembered: RememberedLives, *,
        unbound: ByRoom, waits: Mapping[str, float] | None,
        refuses: Callable[[int], str | None],
    ) -> None:
        self.early: Final = EarlyLives()
        self.rooms: Final = BindingRooms(
            self._bind, self._tell, lambda: core.now, waits)
        self.on_ended_early: Callable[[Endpoint, Sender], None] = lambda *_: None
        self.on_dropped: Callable[[Sender], None] = lambda _: None
        self.further: Callable[[Life], bool] = lambda _: False
        self.waits: Callable[[Sender], None] = lambda _: None
        self.bound: Callable[[Sender, Sender], None] = lambda *_: None
        self.over: Callable[[Life, Sender], None] = lambda *_: None
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._senders: Final = senders
        self._remembered: Final = remembered
        self._refuses: Final = refuses
        self._uses: Final = Uses()
        self._unbound: Final = unbound
        self._alone: Final[deque[tuple[float, Sender]]] = deque()  # failed before a sink came
        self.part: Final = Part(
            "binding", failed=self._leave, drain=self._refuse_early, due=self.rooms.next,
            turns={Turn.ROOMS: self.rooms.end_waits, Turn.ROOM: self._drop_alone})

    # Requests of the application

    def count(self, sender: Sender) -> None:
        """Give the sender the use of its room, if its caller has given it none."""
        if sender.given_use is None:
            sender.use = self._uses.next(sender.room)

    def put(self, sender: Sender) -> None:
        """Begin a hand-over that the router has put here."""
        self._core.metrics.add("handoffs_opened")
        self.rooms.open(sender)
        if sender.endpoint.life is None:
            self._unbound.add(sender)
            self._endpoints.stages.register(sender)
        self._senders.begin(sender)

    # Messages of sinks

    def endpoint_of(
        self, peer: Peer, life: Life, by: type[Frame] = Introduce
    ) -> Endpoint | None:
        """The endpoint of a life of which this sink speaks; None if it has said that nothing more
        would come of it. by: the kind of its frame.
        Raises RemoteProtocolError for a life of another member or process.
        """
        lives = self._endpoints.lives
        if life.incarnation != peer.incarnation or life.member != peer.member:
            raise RemoteProtocolError("the life belongs to another incarnation or member")
        endpoint = lives.get(life)
        if endpoint is None and self._remembered.forgotten(peer.name, life):
            self._core.metrics.add("stale_frames")
            return None
        if endpoint is None or life in self.rooms:
            self.rooms.hear(life, peer.name, by)
            endpoint = lives.get(life)
        return endpoint or self._meet(life, by)

    def ended(self, early: Sender) -> Sender | None:
        """A request of the room and prompt of this early life that has failed without a life."""
        return next((sender for sender in self._unbound.of_room(early.room)
                     if sender.prompt == early.prompt and sender.reason), None)

    def wait(self, life: Life, *, once: bool) -> None:
        """A sink has introduced a life, with this word of its introduction."""
        if (early := self.early.of_life(life)) is not None and life in self.rooms:
            early.once = early.once or once
            self.waits(early)

    def meet_earlier(self, peer: Peer, frame: Introduce | Publish) -> None:
        """Meet the lives that this one names, if their own introductions have not come. These are
        rows of the table (spec/handoff/binding_ordered.py). So the sink is known to each: should it
        end before they come, so do the lives.
        """
        of = frame.life
        for generation in frame.earlier:
            life = Life(of.room, of.incarnation, generation, None, of.prompt, of.member)
            if (life not in self._endpoints.lives
                    and (met := self.endpoint_of(peer, life, Frame)) is not None):
                met.owner.endpoint.meet((peer.name,))
                self._endpoints.take(met, met.automaton.message(ends.introduce, (0, 0, 0)))

    def lose_sink(self, life: Life, sink: str) -> None:
        """A sink is done with a life that has no sender. A request that comes later ends, too
        (`end_with_life`).
        """
        self.rooms.hear(life, sink, Abort)

    def _meet(self, life: Life, by: type[Frame]) -> Endpoint:
        """The endpoint of a life that has no sender yet."""
        full = self.early.full_for(life)
        if full is not None:
            self.rooms.forget_life(life)
            raise RemoteProtocolError(full)
        early = Sender(self._senders, life.room, life.use, life.prompt)
        early.endpoint.life = life
        self.early.add(early)
        self._endpoints.stages.register(early)
        self._remembered.add(life, early.endpoint)
        if by is not Abort and self.further(life):
            return early.endpoint
        why = self._core.tell("refuses", self._refuses, life.room)
        if why is not None:
            # So that decode need not wait for a timeout.
            opened = self._senders.open(life.room, use=life.use, prompt=life.prompt)
            self._core.ask(lambda: self._senders.give_up(opened, why, transient=True))
        return early.endpoint

    # Steps of the table of the rank

    def _bind(self, life: Life, sender: Sender, differ: bool) -> None:
        """The table has bound the life to this sender. differ: because their prompts differ, so
        both end, when the sinks are known (Sinks).
        """
        early = self.early.of_life(life)
        why = two_prompts(life, sender, early) if differ else ""
        self._unbound.drop(sender)
        if early is not None:
            self.bound(early, sender)
        if early is None:
            sender.endpoint.life = life
            self._remembered.add(life, sender.endpoint)
        elif sender.stage is Sending.UNKNOWN:  # it is being opened
            self.early.drop(early)
            sender.adopt(early)
        elif early.stage is Sending.FAILED:
            self.early.drop(early)
            self._core.metrics.add("bootstrap_failed_reqs", -1)  # counted when the life ended
            self.over(life, sender)
            self._senders.give_up(sender, why or early.reason or "",
                                  transient=early.transient and not why)
        else:
            self._end_early(early, sender)
        sender.misfit = sender.misfit or why

    def _tell(self, life: Life, sender: Sender) -> None:
        """The table says to a life that only this sender waits in the room, of another prompt."""
        early = self.early.of_life(life)
        if early is not None:
            self._senders.begin(early)
            self._senders.give_up(early, two_prompts(life, sender, early))

    def _end_early(self, early: Sender, sender: Sender) -> None:
        """Tell the sinks of an early life that its request has ended before."""
        self.early.drop(early)
        self.on_ended_early(early.endpoint, sender)
        self._core.metrics.add("bootstrap_failed_reqs", -1)  # counted when the request ended
        self._senders.begin(early)
        self._senders.give_up(early, sender.reason or "", transient=sender.transient)

    def _refuse_early(self, why: str) -> None:
        """The node drains: fail lives that have no sender. A sender may still end with one that has
        failed before.
        """
        for early in [one for one in self.early if one.stage is not Sending.FAILED]:
            self.early.drop(early)
            self.rooms.forget_life(self._endpoints.life(early.endpoint))
            self._senders.begin(early)
            self._senders.give_up(early, why, transient=True)

    # Senders that have failed

    def _leave(self, endpoint: Endpoint, before: State) -> None:
        """The request has ended here."""
        sender: Sender = endpoint.owner
        self.rooms.leave(sender)
        if endpoint.life is None or before is Sending.UNKNOWN:
            self.wait_alone(sender)

    def wait_alone(self, sender: Sender) -> None:
        """Keep a sender that has failed while a sink may introduce itself for the room: the sink is
        told of the failure at once.
        """
        until = self._core.now + self._endpoints.seconds["bootstrap_timeout"]
        self._alone.append((until, sender))

    def disown(self, of: Life) -> Sender | None:
        """Take the life that waits for a sender of this room and prompt, if there is one."""
        sender = self.early.first(of.room, of.prompt)
        if sender is not None:
            self.early.drop(sender)
            if sender.endpoint.life is not None:
                self.rooms.forget_life(sender.endpoint.life)
        return sender

    def open_failed(self, of: Life) -> Sender:
        """A sender for a room that has failed at another rank, for the life that comes here."""
        sender = Sender(self._senders, of.room, prompt=of.prompt)
        self._unbound.add(sender)
        self._endpoints.stages.register(sender)
        self.rooms.open(sender)
        self.wait_alone(sender)
        return sender

    def _drop_alone(self, now: float) -> None:
        """Drop senders that failed before a sink introduced itself, when none can still do so."""
        while self._alone and self._alone[0][0] < now:
            _, sender = self._alone.popleft()
            self._unbound.drop(sender)
            self.early.drop(sender)
            self.rooms.forget_sender(sender)
            if sender.endpoint.life is not None:
                self.rooms.forget_life(sender.endpoint.life)
            self.on_dropped(sender)


def two_prompts(life: Life, sender: Sender, early: Sender | None) -> str:
    """Why a life and a request of its room are not one hand-over. early: that of the life."""
    return (f"room {life.room} has two prompts: {_name(sender.prompt)} at prefill{_ended(sender)} "
            f"and {_name(life.prompt)} at decode{_ended(early)}; want the same request, adapter "
            f"and chat template at both ends")


def _name(prompt: bytes | None) -> str:
    return "one without a name" if prompt is None else prompt.hex()


def _ended(end: Sender | None) -> str:
    return f" (it has ended: {end.reason})" if end is not None and end.reason else ""
