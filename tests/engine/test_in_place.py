"""The contract where a lease is of pages, and not of staging memory: the same promises.

What the contract's own tests say of bytes, of fences and of ends is asked once more here, of the
engines that declare a page fence. What they say of staging memory is not.
"""

import signal
import subprocess

import numpy as np
import pytest

from pdproto.engine.contract import EngineError, Lease, Scope
from pdproto.engine.leases import Leases
from tests.engine.engines import ENGINES, SENT_BYTES, Engine, Pair, write
from tests.engine.in_place import IN_PLACE, PAGE_BYTES, InPlaceSink, Pages
from tests.engine.test_contract import (  # noqa: F401 - pytest finds them here as well
    LARGE,
    NEW,
    OLD,
    enter_without_asking,
    leased,
    stopped,
    test_a_fence_ends_a_write_that_is_under_way_in_this_process,
    test_a_fence_of_nothing_is_done,
    test_a_forged_token_fails_only_its_own_write,
    test_a_lease_that_claims_to_be_longer_is_found_out,
    test_a_lease_that_is_released_too_early_harms_nobody_else,
    test_a_sink_that_closes_in_mid_write_ends_the_writes,
    test_a_source_that_closes_in_mid_write_leaves_nothing_running,
    test_a_write_past_the_lease_is_not_posted,
    test_a_write_that_begins_after_a_fence_is_refused,
    test_a_write_to_a_lease_that_has_ended_is_refused,
    test_a_writer_in_another_process_lands_its_bytes,
    test_a_writer_killed_in_mid_write_departs,
    test_a_writer_stopped_in_mid_write_never_reaches_the_next_life,
    test_many_writes_of_many_leases_are_in_flight_at_once,
    test_the_bytes_of_a_write_land_where_they_should_and_nowhere_else,
    test_two_sources_of_one_life_have_memory_of_their_own,
)
from tests.waiting import until


@pytest.fixture
def engine() -> Engine:
    """Also what the fixtures of the other module make their pairs of."""
    return IN_PLACE


def in_place(pair: Pair, lease: Lease) -> Pages:
    assert isinstance(pair.sink, InPlaceSink)
    return pair.sink.targets[lease.number]


@pytest.mark.parametrize("asked", [True, False])
def test_nothing_lands_in_fenced_pages_because_the_lease_is_asked(
    pair: Pair,
    stopped: tuple[Lease, subprocess.Popen[str]],  # noqa: F811 - the fixture above
    monkeypatch: pytest.MonkeyPatch,
    asked: bool,
) -> None:
    """Not a byte behind the fence, in pages that are nobody else's yet: so they may be at once."""
    lease, process = stopped
    pages = in_place(pair, lease)
    until(lambda: (pages.bytes() == OLD).sum() == SENT_BYTES, "what was sent before")
    if not asked:
        monkeypatch.setattr(Leases, "enter", enter_without_asking)
    ticket = pair.sink.fence(lease)
    assert pair.sink.fenced(ticket), "no receive is running, so there is nothing to wait for"
    process.send_signal(signal.SIGCONT)
    result, _ = process.communicate()
    assert result.strip() == "REFUSED"
    assert (pages.bytes() == OLD).sum() == (SENT_BYTES if asked else LARGE)


def test_pages_take_no_landing_memory(pair: Pair) -> None:
    lease = leased(pair.sink, LARGE)
    write(pair.source, lease.address, bytes([NEW]) * LARGE)
    counts = pair.sink.counts()
    assert counts.target_bytes == LARGE
    assert counts.leased_bytes == counts.pooled_bytes == 0
    pair.sink.release(lease)
    assert pair.sink.counts().target_bytes == 0


def test_the_engine_does_not_view_the_pages_of_its_caller(pair: Pair) -> None:
    lease = leased(pair.sink, 100)
    assert isinstance(pair.sink, InPlaceSink)
    with pytest.raises(EngineError, match="on the caller's memory"):
        super(InPlaceSink, pair.sink).view(lease)


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_only_engines_with_a_page_fence_lease_pages(name: str) -> None:
    pair = Pair(ENGINES[name])
    pages = Pages(np.zeros((3, PAGE_BYTES), np.uint8), [0, 2, 1], 100)
    if pair.sink.target_scope is Scope.PAGE:
        assert pair.sink.lease("life", "source", 100, pages) is not None
    else:
        with pytest.raises(EngineError, match="cannot keep a writer out of memory that is not"):
            pair.sink.lease("life", "source", 100, pages)
        assert pair.sink.counts().leases == 0
    pair.close()


def test_of_the_engines_here_only_tcp_declares_one() -> None:
    """In shared memory, and where a library writes by address, a writer may be between two stores.
    """
    scopes = {}
    for name, engine in ENGINES.items():
        pair = Pair(engine)
        scopes[name] = pair.sink.target_scope
        pair.close()
    assert scopes == {name: Scope.PAGE if name == "tcp" else Scope.NONE for name in ENGINES}
