"""The lives of a decode rank: their numbers, the order within a room, and their end."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from pdproto.node.core import Core
from pdproto.node.decode.receiver import Receiver
from pdproto.node.endpoints import Endpoints
from pdproto.node.part import Part
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.limits import EARLIER_LIVES_MAX
from pdproto.runtime.wire import AnyFrame, Life
from pdproto.spec.handoff.poll import SINK_IS_NAMED, SINK_IS_OVER


class Generations:
    """The numbers of lives: the next one, the open ones, and the floor below them.

    floor: every life with a number below it is over. Lives begin in the order of their numbers.
    """

    def __init__(self) -> None:
        self.floor = 0
        self._next = 0
        self._open: Final[set[int]] = set()
        self._begun: Final[deque[int]] = deque()  # from the oldest that is open on

    def next(self, given: int | None) -> int:
        """The number of the next life: the given one, if there is one."""
        return self._next if given is None else given

    def use(self, number: int) -> None:
        """A life of this number will begin."""
        self._next = max(self._next, number + 1)

    def begin(self, number: int) -> None:
        """The life begins."""
        self._open.add(number)
        self._begun.append(number)

    def end(self, number: int) -> None:
        """The life is over. The floor rises when the oldest open life ends."""
        self._open.remove(number)
        while self._begun and self._begun[0] not in self._open:
            self.floor = self._begun.popleft() + 1


class NumberedLives:
    """Only the node's loop calls the methods, unless they say otherwise."""

    def __init__(self, core: Core, endpoints: Endpoints) -> None:
        self._incarnation: Final = core.incarnation
        self._member: Final = core.link.member_of(core.name)
        self._metrics: Final = core.metrics
        self._endpoints: Final = endpoints
        self._generations: Final = Generations()
        self._of_room: Final[dict[int, tuple[Receiver, ...]]] = {}  # those without a name, in order
        self.part: Final = Part("numbered lives", lives_below=lambda: self._generations.floor,
                                forgotten=self._end)

    def next(
        self, room: int, generation: int | None, use: int | None, prompt: bytes | None = None
    ) -> Life:
        """The next life, or the one of this number. One thread at a time."""
        return Life(room, self._incarnation, self._generations.next(generation), use,
                    prompt, self._member)

    def use(self, life: Life) -> None:
        """The life will begin. One thread at a time."""
        self._generations.use(life.generation)

    def begin(self, receiver: Receiver) -> None:
        """Count a life, in the order of their numbers."""
        self._metrics.add("handoffs_opened")
        self._generations.begin(receiver.life.generation)
        self._endpoints.lives[receiver.life] = receiver.endpoint
        if receiver.life.use is None:
            self._of_room[receiver.room] = *self._of_room.get(receiver.room, ()), receiver
        self._endpoints.stages.register(receiver)

    def earlier(self, endpoint: Endpoint, index: int) -> tuple[int, ...]:
        """The lives of its prompt that a life names to this source, by their generations, the first
        one first.
        """
        receiver, source = endpoint.owner, endpoint.peers[index]
        of_room = self._of_room.get(receiver.room, ())
        if len(of_room) < 2 or receiver not in of_room:
            return ()
        before = [one for one in of_room[:of_room.index(receiver)]
                  if one.life.prompt == receiver.life.prompt]
        return tuple(self._named(before, source))[-EARLIER_LIVES_MAX:]

    @staticmethod
    def _named(receivers: list[Receiver], source: str) -> Iterator[int]:
        for one in receivers:
            endpoint = one.endpoint
            if source in endpoint.peers and endpoint.automaton.holds(SINK_IS_NAMED, endpoint.state):
                yield one.life.generation

    def hear(self, endpoint: Endpoint, frame: AnyFrame, source: str) -> None:
        """Give the table of an endpoint a message of this source."""
        index = endpoint.peers.index(source)
        self._endpoints.take(endpoint, endpoint.automaton.message(frame.message, (index, 0, 0)))
        self.conclude(endpoint)

    def conclude(self, endpoint: Endpoint) -> None:
        """Drop a life that is over for the table, when no copy into its pages is under way; raise
        the floor if it was the oldest.
        """
        receiver: Receiver = endpoint.owner
        if (receiver.is_verifying or receiver.is_settling
                or receiver.life not in self._endpoints.lives
                or not endpoint.automaton.holds(SINK_IS_OVER, endpoint.state)):
            return
        self._endpoints.forget(endpoint)

    def _end(self, endpoint: Endpoint) -> None:
        receiver: Receiver = endpoint.owner
        self._generations.end(receiver.life.generation)
        of_room = self._of_room.get(receiver.room, ())
        if receiver in of_room:
            del self._of_room[receiver.room]
            if len(of_room) > 1:
                self._of_room[receiver.room] = tuple(r for r in of_room if r is not receiver)
