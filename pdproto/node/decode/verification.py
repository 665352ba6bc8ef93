"""The verification of the chunks that a decode node's sources have written.

The *done* of a source becomes an event only after its chunks have been copied into the pages and
their digests compared. So the table can rely on the content of the pages.
"""

from collections.abc import Mapping
from typing import Final

from pdproto.node.capabilities import Capabilities
from pdproto.node.core import Core
from pdproto.node.data_path import SinkDataPath, Verified
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.receiver import Delivery, Receiver
from pdproto.node.endpoints import Endpoints
from pdproto.runtime.wire import Done
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim
from pdproto.spec.handoff.poll import KVPoll


class Verification:
    """See above. Only the node's loop calls the methods."""

    def __init__(
        self, core: Core, endpoints: Endpoints, lives: NumberedLives, capabilities: Capabilities,
        data_path: SinkDataPath,
    ) -> None:
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._lives: Final = lives
        self._bytes_of: Final = capabilities.bytes_of
        self._data_path: Final = data_path

    @staticmethod
    def is_due(receiver: Receiver, source: str) -> bool:
        """Whether the source's chunks must be verified before the table gets its *done*."""
        index = receiver.endpoint.peers.index(source)
        return (receiver.endpoint.value(ends.claim, (0, 0, index)) is Claim.OUT
                and receiver.poll() in (KVPoll.WAITING_FOR_INPUT, KVPoll.TRANSFERRING))

    def begin(self, receiver: Receiver, source: str, done: Done) -> None:
        """Have the source's chunks copied and compared. A second *done* of it is ignored."""
        deliveries, pages = receiver.deliveries, receiver.pages_of(source)
        if source in deliveries and deliveries[source].is_verifying:
            return
        delivery = deliveries[source] = Delivery(done, self._core.clock())
        problem = done.problem(len(pages)) or mixed(receiver.uses, done.use)
        if not problem:
            delivery.use = done.use
            self._data_path.verify(receiver.life, source, done.chunks, pages)
            return
        delivery.is_verifying = False
        receiver.note(f"{source} {problem}")
        self._lives.hear(receiver.endpoint, done, source)

    def end(self, report: Verified) -> None:
        """The chunks have been copied and compared."""
        endpoint, source = self._endpoints.lives[report.life], report.source
        receiver: Receiver = endpoint.owner
        delivery = receiver.deliveries[source]
        done, delivery.is_verifying = delivery.done, False
        if report.clean:
            receiver.landed_chunks += len(done.chunks)
            receiver.landed_bytes += self._bytes_of(
                source, done.chunks, receiver.pages_of(source))
            # Once the lease has ended, the memory holds no bytes of this life.
            if endpoint.value(ends.lease, (0, 0, 0)):
                index = endpoint.peers.index(source)
                self._endpoints.take(endpoint, endpoint.automaton.device(
                    (ends.content, (0, 0, 0, index, 0), True)))
        elif not receiver.is_settling:  # else no digest was compared
            self._core.metrics.add("spoilt_chunks")
            receiver.note(report.reason or f"the digests of the bytes of {source} do not agree")
        self._lives.hear(endpoint, done, source)


def mixed(uses: Mapping[str, int], use: int) -> str:
    """Why the use of a source does not agree with the other sources; "" if it does.

    use: of that source. uses: by name, of the sources that have sent their whole part.
    """
    for other, theirs in uses.items():
        if theirs != use:
            return (f"has sent request {use} of the room, and {other} request {theirs}: they have "
                    f"bound different requests to it")
    return ""
