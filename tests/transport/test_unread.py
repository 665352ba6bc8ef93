"""A peer that sends more than the node reads costs it bounded memory."""

from typing import Final

import pytest
import zmq

from pdproto.node.link import Link
from pdproto.runtime.limits import BATCH_BYTES_MAX
from pdproto.transport import sockets
from pdproto.transport.sockets import listening

UNREAD: Final = 4
ELSEWHERE: Final = 16  # in the buffers of the kernel, of 32 MiB and 4 MiB at most, and the sender's
TAKES_MS: Final = 500  # longer than a batch takes over loopback


def test_a_node_that_does_not_read_keeps_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """And reads them all when it reads again."""
    monkeypatch.setattr(sockets, "UNREAD_BATCHES_MAX", UNREAD)
    batch, taken = b"x" * BATCH_BYTES_MAX, 0
    with zmq.Context() as context, listening(context, "p0", Link()) as router, \
            context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.SNDHWM, 1)
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
        while taken <= UNREAD + ELSEWHERE and peer.poll(TAKES_MS, zmq.POLLOUT):
            peer.send(batch)
            taken += 1
        assert UNREAD < taken <= UNREAD + ELSEWHERE
        for _ in range(taken):
            assert router.poll(10_000)
            router.recv()
            assert len(router.recv(copy=False)) == BATCH_BYTES_MAX
