"""The ranks of a group, for one of them: frames to and from each, also from the rank to itself.

Rule 1: the entry sends frames to its own rank as to any other rank.
Rule 2: the loss of one rank ends the group. All requests get an answer, and `ended` says why. Each
        rank then frees the resources of its requests, and the server starts another group.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from pdproto.node.core import Core
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.ports import Transport
from pdproto.runtime.batches import Batch
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import AnyFrame, GroupFrame, Life, Request
from pdproto.spec.handoff import group, group_attempts

JOIN_S: Final = 60.0  # how long a rank may take to appear

Take: TypeAlias = Callable[[int, Any, float], None]  # the index of the sender, the frame, the time


class _Taker(NamedTuple):
    """take: carries out a frame. by_entry: only the entry may send it, about lives of its own."""

    take: Take
    by_entry: bool


class Members:
    """See the rules above. ranks: the endpoint of each rank, by its index. me, entry: indices.

    gate: keeps a frame of a rank for later, if it returns True. on_request: called after the frame
    of a request. raise_floor: called with the floor of the entry.
    """

    def __init__(
        self, core: Core, name: str, ranks: Mapping[int, str], *, me: int, entry: int
    ) -> None:
        self.ended: str | None = None
        self.me: Final = me
        self.entry: Final = entry
        self.names: Final = {index: f"{name}.{index}" for index in ranks}
        self.gate: Callable[[int, AnyFrame, int], bool] = lambda *_: False
        self.on_request: Callable[[Life], None] = lambda _: None
        self.raise_floor: Callable[[int], None] = lambda _: None
        self.own: deque[GroupFrame] = deque()
        self._core: Final = core
        self._endpoints: Final = dict(ranks)
        self._index: Final = {name: index for index, name in self.names.items()}
        self._takers: Final[dict[type, _Taker]] = {}
        self._floor = 0  # the highest that this rank was told
        # The loss of a connection says these of the rank at its other end.
        self.part: Final = Part(
            "members", implied=(group.gone, group.lost, group_attempts.gone, group_attempts.lost),
            begin=self._connect, greet=self._refuse_stranger, floor=self._note_floor,
            overdue=self._lose, lost=self._lose, turns={Turn.WAITS: self.serve})

    @property
    def now(self) -> float:
        """The time of this turn, in seconds of the node's clock."""
        return self._core.now

    def index_of(self, peer: Peer) -> int:
        """The index of a rank."""
        return self._index[peer.name]

    def of_entry(self, takers: Mapping[type, Take]) -> Mapping[type, Callable[[Peer, Any], None]]:
        """The frames of a part, by kind, that only the entry may send."""
        self._takers.update({kind: _Taker(take, True) for kind, take in takers.items()})
        return dict.fromkeys(takers, self._hear_peer)

    def of_ranks(self, takers: Mapping[type, Take]) -> Mapping[type, Callable[[Peer, Any], None]]:
        """The frames of a part, by kind, that each rank sends to the entry."""
        self._takers.update({kind: _Taker(take, False) for kind, take in takers.items()})
        return dict.fromkeys(takers, self._hear_peer)

    def say(self, index: int, frame: GroupFrame) -> None:
        """Send a frame to a rank, which may be this one."""
        if index == self.me:
            self.own.append(frame)
        elif not (peer := self._core.peers[self.names[index]]).lost:
            self._core.say(peer, frame)

    def hear(self, index: int, frame: AnyFrame, incarnation: int) -> None:
        """React to a rank's frame. Raises RemoteProtocolError if the rank may not send it."""
        taker = self._takers.get(type(frame))
        if taker is None:
            raise RemoteProtocolError(f"{frame.message}: no part of this rank takes it")
        # The entry makes all lives.
        author = incarnation if taker.by_entry else self._core.incarnation
        if frame.life.incarnation != author:
            raise RemoteProtocolError(f"{frame.life} belongs to another group")
        if taker.by_entry and index != self.entry:
            raise RemoteProtocolError(f"{frame.message}: only the entry may send it")
        if not self.gate(index, frame, incarnation):
            taker.take(index, frame, self._core.now)
            if isinstance(frame, Request):
                self.on_request(frame.life)

    def hear_late(self, index: int, frame: AnyFrame, incarnation: int) -> None:
        """React to a frame that was kept; drop one that the rank may not send."""
        try:
            self.hear(index, frame, incarnation)
        except RemoteProtocolError as error:
            self._core.refuse(self.names[index], frame.life, error)

    def serve(self, _now: float) -> None:
        """React to the frames of this rank to itself."""
        while self.own:
            self.hear(self.me, self.own.popleft(), self._core.incarnation)
        if self.me == self.entry:
            self._forget_below(self._core.floor())

    def _hear_peer(self, peer: Peer, frame: AnyFrame) -> None:
        self.hear(self._index[peer.name], frame, peer.incarnation)

    def _connect(self, _transport: Transport) -> None:
        for index, endpoint in self._endpoints.items():
            if index != self.me:
                # A rank may start late: until then its silence, and a refusal, mean nothing.
                peer = self._core.connect(self.names[index], endpoint)
                peer.heard = peer.broken = self._core.now + JOIN_S

    @staticmethod
    def _refuse_stranger(batch: Batch) -> None:
        raise RemoteProtocolError(f"{batch.node} is not a rank of this group")

    def _note_floor(self, peer: Peer, floor: int) -> None:
        if self._index[peer.name] == self.entry:
            self._forget_below(floor)

    def _forget_below(self, floor: int) -> None:
        """Have this rank forget the lives below it. A life that is open here keeps them, and stops
        nothing else.
        """
        if floor > self._floor:
            self._floor = floor
            try:
                self.raise_floor(floor)
            except RemoteProtocolError as error:
                self._core.refuse(self.names[self.entry], None, error)

    def _lose(self, peer: Peer, why: str) -> None:
        self.ended = self.ended or f"{peer.name} is gone: {why}"
