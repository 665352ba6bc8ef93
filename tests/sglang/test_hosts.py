"""SGLang's own classes over the backend between two hosts: prefill on one, and decode on the other.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pytest

from pdproto.sglang.settings import BOOTSTRAP
from pdproto.transport.keys import write_secret
from tests.engine.engines import MISSING
from tests.hosts.cuts import severable
from tests.hosts.namespaces import Host, hosts
from tests.hosts.wire import Wire
from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.sglang_handoff.__main__ import summary
from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import START_S, Load
from tests.sglang.apart import Apart, Slow
from tests.waiting import until

REQUESTS: Final = 24
LONG: Final = 1_500  # of a drill that a cut interrupts
CUT_S: Final = 8.0  # longer than a peer may be silent
HEALS_S: Final = 5.0
# Prefill never hears of the rooms that decode begins and ends during the cut.
PATIENCE: Final = tuple((side, BOOTSTRAP, "10") for side in ("prefill", "decode"))


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
@pytest.mark.parametrize("engine", ["tcp", *(
    pytest.param(name, marks=pytest.mark.skipif(bool(MISSING[name]), reason=MISSING[name] or ""))
    for name in sorted(MISSING))])
def test_every_byte_is_right_between_two_hosts(
    pair: tuple[Host, Host], keys: str, engine: str, version: int
) -> None:
    found = drill(pair, keys, version, engine=engine, chunks=3, states=("swa",), prefix=2)
    assert found["succeeded"] == REQUESTS, found["reasons"]


@pytest.mark.parametrize("silent", [0, 1], ids=["prefill", "decode"])
def test_hand_overs_go_on_soon_after_a_one_way_cut_has_healed(
    keys: str, silent: int, tmp_path: Path
) -> None:
    sign = tmp_path / "begun"
    with severable() as (pair, cut), ThreadPoolExecutor(1) as beside:
        load = Load(requests=LONG, in_flight=4, layers=1, pages=1, spare=250,
                    hosts=(pair[0].v4, pair[1].v4), environment=PATIENCE)
        drilling = beside.submit(run, load, 60, Slow(pair, keys, str(sign)))
        until(sign.exists, "the first hand-over", within_s=START_S)
        cut({silent})
        sleep(CUT_S)
        cut(())
        healed = monotonic()
        found = drilling.result()
    landed = sorted(found["decode0"].landed.values())
    assert found["decode0"].failed, "nobody noticed the cut"
    first = next((at for at in landed if at > healed), None)
    assert first is not None, "the drill was over before the cut had healed"
    assert first - healed < HEALS_S
    assert summary(load, found)["wrong"] == []


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
