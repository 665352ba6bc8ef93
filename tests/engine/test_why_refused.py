"""Why a write was refused: the reason is that of its cause, for each engine and each cause.

Seen red with one text for all of them: a made-up address was refused because "the sink has fenced
this hand-over".
"""

import errno
import os
from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from pdproto.engine.board import CLOSED
from pdproto.engine.contract import Address, Lease, Result
from pdproto.engine.frames import TEXTS, Frame, Kind, Why
from tests.engine.engines import LOCAL, Pair, write
from tests.engine.test_contract import leased

LENGTH: Final = 100
Patch = pytest.MonkeyPatch


def made_up(_: Pair, lease: Lease) -> Address:
    token = lease.address.token[:8] + bytes(len(lease.address.token) - 8)
    return msgspec.structs.replace(lease.address, token=token)


def released(pair: Pair, lease: Lease) -> Address:
    pair.sink.release(lease)
    return lease.address


def fenced(pair: Pair, lease: Lease) -> Address:
    pair.sink.fence(lease)
    return lease.address


CAUSES: Final[dict[Why, Callable[[Pair, Lease], Address]]] = {
    Why.UNKNOWN: made_up, Why.OVER: released, Why.FENCED: fenced}
OF_SHARED_MEMORY: Final = {Why.NO_FILE, Why.TOO_MANY}


def test_each_reason_has_a_cause_here() -> None:
    assert {*CAUSES, *OF_SHARED_MEMORY} == {*Why} == {*TEXTS}
    assert len({*TEXTS.values()}) == len(TEXTS)


def refused(pair: Pair, address: Address) -> str:
    """The reason for which a write to this address is refused."""
    outcome = write(pair.source, address, bytes(LENGTH))
    assert outcome.result is Result.REFUSED
    return outcome.reason


@pytest.mark.parametrize("why", CAUSES, ids=lambda why: why.name)
def test_the_reason_of_a_sink_is_that_of_its_cause(pair: Pair, why: Why) -> None:
    """Over a connection that has written, and that has no memory of this lease mapped."""
    other, lease = leased(pair.sink, 1 << 20), leased(pair.sink, LENGTH)
    assert write(pair.source, other.address, bytes(LENGTH)).result is Result.LANDED
    assert refused(pair, CAUSES[why](pair, lease)) == TEXTS[why]


@pytest.mark.parametrize("engine", LOCAL.values(), ids=LOCAL)
@pytest.mark.parametrize("why", CAUSES, ids=lambda why: why.name)
def test_a_source_that_has_the_memory_mapped_names_all_that_it_may_be(
    pair: Pair, why: Why
) -> None:
    """It is refused by a word of shared memory, which says only that no write goes in."""
    lease = leased(pair.sink, LENGTH)
    assert write(pair.source, lease.address, bytes(LENGTH)).result is Result.LANDED
    told = refused(pair, CAUSES[why](pair, lease))
    assert told in (CLOSED, TEXTS[why]), "the sink is asked if the memory was unmapped meanwhile"


def no_file(patch: Patch) -> None:
    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    for call in ("dup", "memfd_create"):
        patch.setattr(os, call, none_left)


def few_regions(patch: Patch) -> None:
    patch.setattr("pdproto.engine.shared_sink.REGIONS_MAX", 1)


@pytest.mark.parametrize("engine", LOCAL.values(), ids=LOCAL)
@pytest.mark.parametrize(("why", "happen"), [(Why.NO_FILE, no_file), (Why.TOO_MANY, few_regions)])
def test_a_sink_that_cannot_hand_out_its_memory_says_so(
    pair: Pair, why: Why, happen: Callable[[Patch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = leased(pair.sink, LENGTH), leased(pair.sink, LENGTH)
    assert write(pair.source, one.address, bytes(LENGTH)).result is Result.LANDED
    happen(monkeypatch)
    assert refused(pair, other.address) == TEXTS[why]


def test_a_reason_of_a_later_release_is_told_as_unknown() -> None:
    assert Frame(Kind.REFUSED, length=99).why == "the sink gives a reason that is unknown here, 99"
