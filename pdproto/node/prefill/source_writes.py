"""The writes of a prefill node, from the row that posts a chunk to the end of the write.

Rule 1: hand-overs take turns: each posts one chunk, to the sink that has got the fewest.
Rule 2: a write that the engine has given up on is in doubt (in_doubt.py). Its hand-over fails at
        once, but its life is remembered until the write can no longer land.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.core import Core
from pdproto.node.data_path import SourceDataPath, WriteOutcome
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import log_fields
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.prefill.in_doubt import InDoubtWrites
from pdproto.node.prefill.remembered_lives import NEVER
from pdproto.node.prefill.sender import Sender, Written, in_doubt_reason, refusal_reason
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Write
from pdproto.spec.handoff.roles import Chunk
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")


class SourceWrites:
    """See the rules above. Only the node's loop calls the methods.

    settle: called with a life when its last write in doubt has ended; it drops a life that is over.
    in_doubt: the writes in doubt.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, data_path: SourceDataPath,
        settle: Callable[[Life | None], object],
    ) -> None:
        self.in_doubt: Final = InDoubtWrites()
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._data_path: Final = data_path
        self._settle: Final = settle
        self._posting: Final[deque[Endpoint]] = deque()  # they have chunks to post
        self._queued: Final[set[int]] = set()  # ids of those endpoints
        self._under_way: Final[dict[int, Written]] = {}
        self._number = 0
        self.part: Final = Part(
            "writes", reactions={(ends.write, Write.POSTED): self.post},
            completions={"error": self._give_up, "skipped": self._skip},
            states=[(_may_post, self.want_room)], failed=self._count_skipped,
            batch=self._end_earlier, ended=self._end_all,
            floor=lambda peer, floor: self.cannot_land(peer.name, peer.incarnation, floor),
            turns={Turn.REPORTS: self.collect, Turn.ROOM: lambda _: self.post_in_turn()},
            wants_turn=lambda: self.may_post)
        metrics = core.metrics
        metrics.gauge("num_prefill_writes", "Writes that have been posted and not ended",
                      lambda: len(self._under_way))
        metrics.gauge("num_prefill_in_doubt_writes", "Writes that the engine has given up on, "
                      "and that may still land", self.in_doubt.count)
        metrics.gauge("prefill_in_doubt_seconds", "How long the oldest write in doubt has been so",
                      lambda: self.in_doubt.longest_s(core.clock()))

    def want_room(self, endpoint: Endpoint, _: Indices) -> None:
        """Queue an endpoint that has a chunk to post."""
        if id(endpoint) not in self._queued:
            self._queued.add(id(endpoint))
            self._posting.append(endpoint)

    @property
    def may_post(self) -> bool:
        """Whether an endpoint has a chunk to post, and the data path has room for it."""
        return bool(self._posting) and self._data_path.has_room

    def post_in_turn(self) -> None:
        """Post chunks, one for each hand-over in turn, while the data path has room."""
        while self._posting and self._data_path.has_room and self._core.pace.has_time:
            endpoint = self._posting.popleft()
            if self._post_next(endpoint):
                self._posting.append(endpoint)
            else:
                self._queued.discard(id(endpoint))

    def _post_next(self, endpoint: Endpoint) -> bool:
        """Post one chunk, to the sink that has got the fewest. Returns whether another may follow.
        The table is not asked for a sink that has got every chunk so far.
        """
        if not _may_post(endpoint.automaton, endpoint.state):
            return False  # it has ended while it waited, and may be forgotten
        sender: Sender = endpoint.owner
        chunks, sinks = len(sender.chunks), len(endpoint.peers)
        for sink in (0,) if sinks == 1 else sorted(
                range(sinks), key=sender.posted):
            lane = sender.lane(sink)
            if lane.posted < chunks and lane.has_room and self._endpoints.take(
                    endpoint, sender.endpoint.post_to(sink)).rows:
                return sinks > 1 or lane.posted < chunks
        return False

    def post(self, endpoint: Endpoint, indices: Indices) -> None:
        """Carry out the row `post`: give the chunk to the data path."""
        _, _, sink, place = indices
        sender: Sender = endpoint.owner
        chunk, lane = endpoint.number(Chunk, place), sender.lane(sink)
        self._number += 1
        posted = self._data_path.post(
            self._number, self._endpoints.life(endpoint), lane.address, lane.offset,
            sender.chunks[chunk], sender.is_wanted)
        self._under_way[self._number] = Written(sender.endpoint, sink, chunk, posted.bytes)
        lane.begin(posted)

    def collect(self, _now: float) -> None:
        """Give the outcomes of writes to the table."""
        for number, outcome, reason in self._data_path.outcomes():
            if number not in self._under_way:
                continue  # it was in doubt, and has been counted as refused
            if outcome is WriteOutcome.ERROR:
                self._give_up(number, reason)
            elif outcome is WriteOutcome.SKIPPED:
                self._skip(number)
            else:
                landed = outcome is WriteOutcome.LANDED
                self._end(number, Write.LANDED if landed else Write.REFUSED, reason)
            if self._core.is_late():
                return

    def cannot_land(self, sink: str, incarnation: int, floor: int) -> None:
        """End the writes in doubt that this incarnation of the sink no longer lets in, because it
        is done with all lives below generation `floor` (NEVER: it has ended). The tables' engine
        refuses writes at the same point (spec/handoff/engine.py).
        """
        why = "its process has ended" if floor == NEVER else "it is done with the hand-over"
        for number in self.in_doubt.take(sink, incarnation, floor):
            self._end(number, Write.REFUSED, why)

    def _end_earlier(self, peer: Peer) -> None:
        """A batch of a new incarnation proves that the older ones have ended."""
        if self.in_doubt:
            for incarnation in self.in_doubt.incarnations(peer.name) - {peer.incarnation}:
                self.cannot_land(peer.name, incarnation, NEVER)

    def _end_all(self, peer: Peer) -> None:
        self.cannot_land(peer.name, peer.incarnation, NEVER)

    def _give_up(self, number: int, reason: str) -> None:
        """A write is in doubt from now on. Its hand-over fails at once, and gets its pages back."""
        endpoint, sink, chunk, _ = self._under_way[number]
        name, life = endpoint.peers[sink], self._endpoints.life(endpoint)
        endpoint.owner.note(in_doubt_reason(name, reason), transient=True)
        self.in_doubt.add(name, life, number, self._core.turned)
        self._endpoints.take(endpoint, endpoint.automaton.completion(
            "error", (sink, endpoint.place(chunk))))
        peer = self._core.peers.get(name)
        if peer is not None and peer.ended:
            self.cannot_land(name, life.incarnation, NEVER)
        else:
            log.warning("node %s: %s: a write of %s may still land", self._core.name,
                        in_doubt_reason(name, reason), life,
                        extra={**log_fields(self._core.name, life), "peer": name})

    def _end(self, number: int, value: Write, reason: str = "") -> None:
        """End a write that has landed or was refused."""
        endpoint, sink, chunk, length = self._under_way.pop(number)
        sender = endpoint.owner
        sender.lane(sink).end(length)
        if self.in_doubt:
            self.in_doubt.drop(endpoint.peers[sink], self._endpoints.life(endpoint), number)
        if value is Write.REFUSED:
            sender.note(refusal_reason(endpoint.peers[sink], reason))
            self._core.metrics.add("refused_writes")
        else:
            sender.landed_chunks += 1
            sender.landed_bytes += length
        was_released = sender.released
        place = endpoint.place(chunk)
        self._endpoints.take(endpoint, endpoint.automaton.device(
            (ends.write, (0, 0, sink, place), value)))
        endpoint.landed()
        if was_released:  # the life was remembered only for this write
            self._settle(endpoint.life)

    def _skip(self, number: int) -> None:
        """End a write that had not begun when its hand-over failed."""
        endpoint, sink, chunk, length = self._under_way.pop(number)
        endpoint.owner.lane(sink).end(length)
        self._core.metrics.add("skipped_chunks")
        self._endpoints.take(endpoint, endpoint.automaton.completion(
            "skipped", (sink, endpoint.place(chunk))))

    def _count_skipped(self, endpoint: Endpoint, _before: State) -> None:
        """The hand-over has failed: chunks that wait are not moved."""
        sender: Sender = endpoint.owner
        self._core.metrics.add("skipped_chunks", sum(
            len(sender.chunks) - sender.posted(sink) for sink in range(len(endpoint.peers))))


def _may_post(automaton: Automaton, state: int) -> bool:
    return automaton.may_fire(state, "post")
