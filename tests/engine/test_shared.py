"""What the shared memory engine has of a sink's memory, and for how long."""

import numpy as np
import pytest

from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import Copy, SharedSource
from tests.node.leftovers import opened
from tests.waiting import until

BYTES = 1 << 20


def test_a_copy_that_is_cut_short_lets_go_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not when somebody collects what points in a circle."""
    def shares() -> int:
        return sum("memfd:pdproto" in path for path in opened().values())

    monkeypatch.setattr(Copy, "step", lambda _: False)
    sink, source = SharedSink(), SharedSource()
    lease = sink.lease("life", "source", BYTES)
    assert lease is not None
    before = shares()
    source.post(lease.address, 0, [np.zeros(BYTES, np.uint8)])
    until(lambda: shares() > before, "the sink's memory to be mapped")
    source.close()
    assert shares() <= before
    sink.close()
