"""A node is drained by its operator, and replaced, before registries in processes of their own."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import requests

from pdproto import DecodeNode, KVPoll, PrefillNode, SinkPages, SourcePages
from pdproto.engine.engines import open_sink, open_source
from pdproto.node.link import place_of, tcp_at
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Rank
from pdproto.transport.operator_port import OperatorPort
from tests import skips
from tests.registry.served import prefill
from tests.registry.test_etcd import closing, etcd, registry, wait_for
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

PAGE: Final = np.arange(16 * 8, dtype=np.uint16).reshape(1, 16, 1, 8)
DRAINS: Final = "rank dp0 cp0 tp0 pp0 drains, and takes no new request"


class Prefill:
    """A rank in a node of this process, with its registrar and its operator's port."""

    def __init__(self, name: str, registries: str, run: int, opened: ExitStack) -> None:
        self.node = opened.enter_context(closing(
            PrefillNode(name, SourcePages([PAGE], open_source("tcp")))))
        host, port = place_of(self.node.endpoint)
        keeping = Registrar(registries, prefill(of=1, run=run, rank_ip=host, rank_port=port,
                                                name=name), sign_of_life_s=0.2, retry_s=0.1)
        keeping.follow(self.node)
        keeping.start()
        opened.callback(keeping.stop)
        self._operator = opened.enter_context(OperatorPort(self.node))

    def drain(self) -> int:
        return requests.post(f"http://{self._operator.address}/drain", timeout=10.0).status_code


def refusal(client: RegistryClient) -> str:
    """Why a new request finds no rank; "" if it does."""
    try:
        client.look_up_all()
    except (NotFoundError, UnreachableError) as error:
        return str(error)
    return ""


def decoded(room: int, client: RegistryClient, opened: ExitStack) -> tuple[Any, np.ndarray]:
    """A receiver that has found the prefill rank for its room in the registry, and its pages."""
    at = client.look_up_all(room).addresses()[Rank(0, 0, 0, 0)]
    pages = np.zeros_like(PAGE)
    node = opened.enter_context(closing(
        DecodeNode(f"d{room}", SinkPages({at.name: [pages]}, open_sink("tcp")))))
    return node.open(room, {at.name: tcp_at(at.rank_ip, at.rank_port)}, pages=[0]), pages


def hand_over(sender: Any, receiver: Any) -> None:
    wait_for(sender, KVPoll.WAITING_FOR_INPUT)
    sender.send([0])
    wait_for(receiver, KVPoll.SUCCESS)
    receiver.close()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def scale_down_and_up(registries: str, opened: ExitStack, client: RegistryClient,
                      meanwhile: Any) -> None:
    """Drain a rank that has a request for which decode has not looked it up, and replace it.

    meanwhile: does something to the registries, and returns a client of one that goes on.
    """
    first = Prefill("p1", registries, 1, opened)
    until(lambda: not refusal(client))
    old = first.node.open(room=7)
    assert first.drain() == 202
    until(lambda: DRAINS in refusal(client))
    client = meanwhile()
    until(lambda: DRAINS in refusal(client))
    receiver, pages = decoded(7, client, opened)
    hand_over(old, receiver)
    assert np.array_equal(pages, PAGE)
    until(lambda: first.drain() == 200)
    until(lambda: "ranks are missing" in refusal(client))
    second = Prefill("p2", registries, 2, opened)
    until(lambda: not refusal(client))
    new = second.node.open(room=8)
    hand_over(new, decoded(8, client, opened)[0])


def speaking(address: str, opened: ExitStack) -> RegistryClient:
    client = RegistryClient(address)
    opened.callback(client.close)
    return client


def test_a_registry_that_has_restarted_does_not_name_a_rank_that_drains(opened: ExitStack) -> None:
    address, process = opened.enter_context(registry(None))
    client = speaking(address, opened)

    def restart() -> RegistryClient:
        process.kill()
        process.wait(PATIENCE_S)
        opened.enter_context(registry(None, address.rpartition(":")[2]))
        return client

    scale_down_and_up(address, opened, client, restart)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("etcd") is None, reason=skips.NO_ETCD)
def test_a_registry_that_has_not_heard_of_the_drain_reads_it_in_the_store(
    opened: ExitStack, tmp_path: Path
) -> None:
    """The registry that was told is killed. One that starts later has read the drain in etcd."""
    [member] = opened.enter_context(etcd(tmp_path, 1))
    told, process = opened.enter_context(registry(member.url))
    other, _ = opened.enter_context(registry(member.url))

    def kill() -> RegistryClient:
        later, _ = opened.enter_context(registry(member.url))
        process.kill()
        process.wait(PATIENCE_S)
        return speaking(later, opened)

    scale_down_and_up(f"{told},{other}", opened, speaking(other, opened), kill)
