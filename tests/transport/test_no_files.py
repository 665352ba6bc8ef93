"""No descriptor is free in the process of a node: the requests that need one fail, and no other."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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
