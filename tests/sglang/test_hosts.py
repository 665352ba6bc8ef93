"""SGLang's own classes over the backend between two hosts: prefill on one, and decode on the other.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pytest

from pdproto.transport.keys import write_secret
from tests.hosts.namespaces import Host, hosts
from tests.hosts.wire import Wire
from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.sglang_handoff.__main__ import summary
from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import Load, Seat, live

REQUESTS: Final = 24


@dataclass(frozen=True, slots=True)
class Apart:
    """The life of a rank's process, on the host of its server, with the keys of the cluster."""

    pair: tuple[Host, Host]
    keys: str

    def __call__(self, seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
        os.environ["PDPROTO_KEYS"] = self.keys
        self.pair[seat.side == "decode"].enter()
        live(seat, load, pipe)


def drill(pair: tuple[Host, Host], keys: str, version: int, **asked: Any) -> dict[str, Any]:
    addresses = pair[0].address(version), pair[1].address(version)
    load = Load(requests=REQUESTS, hosts=addresses, **asked)
    found = summary(load, run(load, seconds=60, body=Apart(pair, keys)))
    assert found["wrong"] == []
    assert found["left"] == {}
    return found


@pytest.fixture
def keys(tmp_path: Path) -> str:
    """The path of the cluster's secret, as on every host of it."""
    path = str(tmp_path / "keys")
    write_secret(path)
    return path


@pytest.fixture
def pair() -> Iterator[tuple[Host, Host]]:
    with hosts() as found:
        yield found


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("engine", ["tcp", "mooncake"])
def test_every_byte_is_right_between_two_hosts(
    pair: tuple[Host, Host], keys: str, engine: str, version: int
) -> None:
    found = drill(pair, keys, version, engine=engine, chunks=3, states=("swa",), prefix=2)
    assert found["succeeded"] == REQUESTS, found["reasons"]


def test_large_pages_are_written_straight_into_the_cache_of_another_host(
    pair: tuple[Host, Host], keys: str,
) -> None:
    assert drill(pair, keys, 4, page_bytes=32_768, decode_tp=2)["succeeded"] == REQUESTS


def test_shared_memory_between_hosts_fails_every_request_and_says_why(
    pair: tuple[Host, Host], keys: str,
) -> None:
    found = drill(pair, keys, 4, engine="shm", in_flight=REQUESTS)
    assert found["succeeded"] == 0
    assert any("shared memory works only within this host" in why for why in found["reasons"])


def test_a_wire_that_loses_and_delays_fails_none(keys: str) -> None:
    wire = Wire(delay_s=0.005, loss=0.01)
    with hosts(wire.join) as pair:
        assert drill(pair, keys, 4, chunks=3)["succeeded"] == REQUESTS
    assert wire.lost > 0
