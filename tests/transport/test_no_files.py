"""No descriptor is free in the process of a node. A request that needs one for a connection fails,
one that needs it for staging memory waits, and no other notices.
"""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import numpy as np
import pytest

from pdproto import DecodeNode, PrefillNode, SinkPages, SourcePages
from pdproto.engine.contract import EngineBusy
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import cluster, polls, published
from tests.transport.test_strangers import hand_over
from tests.waiting import until


@contextmanager
def no_file_free() -> Iterator[None]:
    """All descriptors below the limit are in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd"))) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    taken = []
    try:
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_node_without_a_free_file_goes_on_with_its_peers(
    caplog: pytest.LogCaptureFixture
) -> None:
    """And says in the request that needs one what is missing."""
    with cluster() as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        hand_over(nodes, 1)
        with no_file_free():
            late = decode.open(2, {"p9": "tcp://127.0.0.1:9"}, pages=[9], slot=9)
            until(polls([late], KVPoll.FAILED))
            assert "Too many open files" in str(late.failure)
            hand_over(nodes, 3)
        hand_over(nodes, 4)
        assert [node._loop.turn_errors for node in (prefill, decode)] == [0, 0]
        again = published([decode.open(5, {"p9": "tcp://127.0.0.1:9"})])[0]
        until(lambda: "p9" in decode._core.peers)
        again.abort()
    assert caplog.text.count("Too many open files") <= 2


PAGE: Final = 1 << 12


def test_kept_memory_is_given_back_to_a_system_that_refuses_more() -> None:
    with closing(SharedSink()) as sink:
        small = sink.lease("first", "source", PAGE)
        assert small is not None
        sink.release(small)
        with no_file_free():
            assert sink.lease("second", "source", 4 * PAGE) is not None
            with pytest.raises(EngineBusy, match=r"no staging memory of 8192 bytes: .*Too many"):
                sink.lease("third", "source", 2 * PAGE)
        assert sink.lease("third", "source", 2 * PAGE) is not None


def test_a_request_waits_for_the_file_of_its_memory_and_no_other_does() -> None:
    """Over real shared memory: two chunks of one size are leased and kept, none of the other."""
    pools = [np.arange(16 * 8 * 2 * 16, dtype=np.float32).reshape(16, 8, 2, 16)]
    ours = [np.zeros_like(pools[0])]
    with (closing(PrefillNode("p0", SourcePages(pools, SharedSource()))) as prefill,
          closing(DecodeNode("d0", SinkPages(ours, SharedSink()))) as decode):

        def opened(room: int, pages: list[int]) -> tuple[Sender, Receiver]:
            receiver = decode.open(room, {"p0": prefill.endpoint}, pages=pages)
            return prefill.open(room), receiver

        def ended(sender: Sender, receiver: Receiver, pages: list[int]) -> None:
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            sender.send(pages)
            until(polls([sender, receiver], KVPoll.SUCCESS))
            receiver.close()

        ended(*opened(1, [1]), [1])
        held = opened(2, [2])
        until(polls([held[0]], KVPoll.WAITING_FOR_INPUT))
        with no_file_free():
            waits = opened(3, [3, 4, 5])
            until(lambda: "which the system refuses: lease: no staging" in (decode.health() or ""))
            ended(*held, [2])
            assert waits[1].failure is None
        ended(*waits, [3, 4, 5])
        until(lambda: decode.health() is None)
        for page in range(1, 6):
            assert (ours[0][page] == pools[0][page]).all()


def test_a_host_without_shared_memory_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a filter of system calls."""
    def refuse(_name: str, _flags: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(OSError, match=r"refuses memory that processes share .* not permitted; open "
                                      r"both sides with another engine \(tcp, mooncake, nixl\)"):
        SharedSink()
