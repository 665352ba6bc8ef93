"""Where a decode rank of `pdproto handoff` finds its prefill ranks, from a registry on a socket."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pdproto.drill.handoff.directory import Directory, wait_for
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import Registration
from pdproto.runtime.versions import VERSION
from tests.registry.test_trace import NEVER_SILENT
from tests.waiting import PATIENCE_S, until

FIRST, SECOND = "prefill-0-0-0", "prefill-1-0-0"


@pytest.fixture
def client() -> Iterator[RegistryClient]:
    with RegistryServer(limits=NEVER_SILENT) as server:
        speaking = RegistryClient(f"{server.host}:{server.port}")
        yield speaking
        speaking.close()


def register(client: RegistryClient, stage: int, run: int) -> None:
    """Each run of a rank listens somewhere else."""
    client.register(Registration(
        attn_tp_size=1, attn_tp_rank=0, pp_size=2, pp_rank=stage, rank_ip="10.0.0.1",
        rank_port=5000 + 10 * stage + run, incarnation=run, version=VERSION,
    ))


@contextmanager
def looking(client: RegistryClient, patience_s: float = 600.0) -> Iterator[Directory]:
    for stage in (0, 1):
        register(client, stage, run=1)
    directory = Directory(client.address, [FIRST, SECOND], patience_s=patience_s)
    try:
        assert wait_for(directory, PATIENCE_S)
        yield directory
    finally:
        directory.close()


def test_a_lost_rank_is_found_at_the_address_of_its_next_run(client: RegistryClient) -> None:
    with looking(client) as directory:
        before = directory.endpoints
        assert before == {FIRST: "tcp://10.0.0.1:5001", SECOND: "tcp://10.0.0.1:5011"}
        directory.lost([FIRST], before)
        assert directory.endpoints is None
        time.sleep(0.5)  # two look-ups find the run that was lost
        assert directory.endpoints is None
        register(client, 0, run=2)
        until(lambda: directory.endpoints is not None)
        assert directory.endpoints == {**before, FIRST: "tcp://10.0.0.1:5002"}


def test_a_late_report_of_a_loss_does_not_drop_the_next_run(client: RegistryClient) -> None:
    """A hand-over of the run before fails after the look-up: a drill waited for ever here once."""
    with looking(client) as directory:
        before = directory.endpoints
        assert before is not None
        register(client, 0, run=2)
        directory.lost([FIRST], before)
        until(lambda: directory.endpoints is not None)
        after = directory.endpoints
        directory.lost([FIRST], before)
        assert directory.endpoints is after
        assert after == {**before, FIRST: "tcp://10.0.0.1:5002"}


def test_a_rank_that_was_only_silent_is_found_at_its_old_address(client: RegistryClient) -> None:
    with looking(client, patience_s=0.3) as directory:
        before = directory.endpoints
        assert before is not None
        directory.lost([SECOND], before)
        until(lambda: directory.endpoints is not None)
        assert directory.endpoints == before
        assert directory.endpoints is not before


def test_m1_2_a_failed_look_up_gives_a_reason_and_no_addresses(client: RegistryClient) -> None:
    directory = Directory(client.address, [FIRST])
    try:
        until(lambda: "no rank has registered" in directory.problem)
        assert not wait_for(directory, 0.1)
        assert directory.endpoints is None
    finally:
        directory.close()


def test_m1_3_an_incomplete_list_of_addresses_is_not_used(client: RegistryClient) -> None:
    """Also if the rank that is missing is not among those that are needed."""
    register(client, 0, run=1)
    directory = Directory(client.address, [FIRST])
    try:
        until(lambda: "1 of 2 ranks are missing, rank dp0 cp0 tp0 pp1 first"
                   in directory.problem)
        assert directory.endpoints is None
        register(client, 1, run=1)
        assert wait_for(directory, PATIENCE_S)
    finally:
        directory.close()
