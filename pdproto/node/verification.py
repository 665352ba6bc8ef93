"""The verification of the chunks that a decode node's sources have written.

The *done* of a source becomes an event only after its chunks have been copied into the pages and
their digests compared. So the table can rely on the content of the pages.
"""

from collections.abc import Callable
from typing import Final

from pdproto.node.data_path import SinkDataPath, Verified
from pdproto.node.node import Node
from pdproto.node.receiver import Part, Receiver
from pdproto.node.uses import mixed
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Done
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim
from pdproto.spec.handoff.poll import KVPoll


class Verification:
    """See above. Only the node's loop calls the methods.

    hear: gives the table of an endpoint the *done* of a source.
    """

    def __init__(
        self, node: Node, data_path: SinkDataPath, hear: Callable[[Endpoint, Done, str], None]
    ) -> None:
        self._node: Final = node
        self._data_path: Final = data_path
        self._hear: Final = hear

    @staticmethod
    def is_due(receiver: Receiver, source: str) -> bool:
        """Whether the source's chunks must be verified before the table gets its *done*."""
        index = receiver.endpoint.peers.index(source)
        return (receiver.endpoint.value(ends.claim, (0, 0, index)) is Claim.OUT
                and receiver.poll() in (KVPoll.WAITING_FOR_INPUT, KVPoll.TRANSFERRING))

    def begin(self, receiver: Receiver, source: str, done: Done) -> None:
        """Have the source's chunks copied and compared. A second *done* of it is ignored."""
        parts, pages = receiver.parts, receiver.pages_of(source)
        if source in parts and parts[source].is_verifying:
            return
        part = parts[source] = Part(done, self._node.clock())
        problem = done.problem(len(pages)) or mixed(receiver.uses, done.use)
        if not problem:
            part.use = done.use
            self._data_path.verify(receiver.life, source, done.chunks, pages)
            return
        part.is_verifying = False
        receiver.blame = f"{source} {problem}"
        self._hear(receiver.endpoint, done, source)

    def end(self, receiver: Receiver, report: Verified, *, is_settling: bool) -> None:
        """The chunks have been copied and compared. is_settling: the hand-over has failed
        meanwhile, and its pages are about to be free.
        """
        endpoint, source = receiver.endpoint, report.source
        part = receiver.parts[source]
        done, part.is_verifying = part.done, False
        receiver.metadata[source] = done.metadata
        if report.clean:
            receiver.landed_chunks += len(done.chunks)
            receiver.landed_bytes += self._node.bytes_of(
                source, done.chunks, receiver.pages_of(source))
            index = endpoint.peers.index(source)
            self._node.take(endpoint, endpoint.automaton.device(
                (ends.content, (0, 0, 0, index, 0), True)))
        elif not is_settling:  # else no digest was compared
            self._node.metrics.add("spoilt_chunks")
            receiver.blame = report.reason or f"the digests of the bytes of {source} do not agree"
        self._hear(endpoint, done, source)
