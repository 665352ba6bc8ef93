"""Mooncake as it is: what its library does, and what the engine over it makes of that."""

import pytest

from pdproto.engine.contract import EngineError
from pdproto.engine.mooncake import MooncakeSink
from tests.engine.engines import MISSING
from tests.engine.libraries import LENGTH, ends_well, killed_in_mid_write, unregistered_in_mid_write

pytestmark = pytest.mark.skipif(bool(MISSING["mooncake"]), reason=MISSING["mooncake"] or "there")


def test_taking_memory_back_is_no_fence() -> None:
    """What runs lands wholly, and is reported as done. What begins later is refused."""
    found = unregistered_in_mid_write("mooncake")
    assert found.landed == LENGTH
    assert found.ended
    assert not found.again
    assert found.again_bytes == 0


def test_a_sink_that_dies_in_mid_write_is_named() -> None:
    killed_in_mid_write("mooncake")


def test_a_process_that_closes_nothing_ends_well() -> None:
    ends_well("mooncake")


def test_a_protocol_that_it_has_not_is_said() -> None:
    with pytest.raises(EngineError, match=r"want a protocol of .*, got 'nonsense'"):
        MooncakeSink(protocol="nonsense")
