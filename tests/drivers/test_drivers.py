"""The lease lock as processes, over both drivers: frames, clocks and traces."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import time_ns
from types import SimpleNamespace

import pytest

from examples.lease_lock import SYSTEM, has, lent, wrote
from pdproto.cli.main import main
from pdproto.drivers import zeromq
from pdproto.drivers.addresses import listening_place, on_loopback, place
from pdproto.drivers.aio import Asyncio
from pdproto.drivers.zeromq import ZeroMQ
from pdproto.runtime.process import Name, Process
from tests.docs.documents import ROOT
from tests.waiting import ended

NAMES: tuple[Name, ...] = (("server",), ("store",), ("client", "ann"), ("client", "bob"))
LEASE = f"{ROOT / 'examples' / 'lease_lock.py'}:SYSTEM"


def process(name: Name, lease_s: float = 60.0) -> Process:
    return Process(
        SYSTEM, *map(str, name), among=NAMES, waits={"lease_over": lease_s},
        choose={"lend": lambda: {"t": time_ns()}},
    )  # fmt: skip


def test_four_processes_make_traces_that_conform(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "lease_processes.py", tmp_path],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    traces = sorted(map(str, tmp_path.glob("*.jsonl")))
    assert len(traces) == len(NAMES)
    assert main(["trace", "--system", LEASE, *traces]) == 0
    assert "CONFORMS  20 lines of 4 files: 4 endpoints, 16 rows" in capsys.readouterr().out


def test_a_write_without_a_lease_is_rejected_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example without the line that waits for the lease: the table refuses the call."""
    line = '{"n":2,"node":"ann","machine":"client","end":1,"row":"put","on":"call write","with":'
    begins = '{"n":1,"node":"ann","machine":"client","end":1,"begins":{},"own":{"c":"ann"}}\n'
    (tmp_path / "ann.jsonl").write_text(begins + line + '{"t":7}}\n', encoding="utf-8")
    assert main(["trace", "--system", LEASE, str(tmp_path / "ann.jsonl")]) == 1
    assert "ann.jsonl, line 2: put cannot fire here" in capsys.readouterr().out


@pytest.fixture
def pair() -> Iterator[tuple[ZeroMQ, ZeroMQ]]:
    """A server whose leases last 0.2 s, and a client, over ZeroMQ in one thread."""
    addresses = on_loopback(NAMES)
    with (ZeroMQ(process(("server",), 0.2), addresses) as server,
          ZeroMQ(process(("client", "ann")), addresses) as client):
        yield server, client


def test_over_zeromq_a_lease_is_lent_and_runs_out(pair: tuple[ZeroMQ, ZeroMQ]) -> None:
    server, client = pair
    client.call("lock")
    assert server.serve(lambda: bool(server.machine.stored(lent)), seconds=10.0)
    assert client.serve(lambda: bool(client.machine.stored(has)), seconds=10.0)
    assert server.serve(lambda: not server.machine.stored(lent), seconds=10.0)
    assert not server.serve(lambda: False, seconds=0.0)


def test_over_zeromq_no_clock_runs_while_the_process_stands_still(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red with the host's clock: the lease has run out."""
    host, addresses = SimpleNamespace(now=0.0), on_loopback(NAMES)
    monkeypatch.setattr(zeromq, "time", SimpleNamespace(monotonic=lambda: host.now))
    with (ZeroMQ(process(("server",), 20.0), addresses) as server,
          ZeroMQ(process(("client", "ann")), addresses) as client):
        client.call("lock")
        assert server.serve(lambda: bool(server.machine.stored(lent)), seconds=10.0)
        host.now += 1_000.0
        server.serve(lambda: True, seconds=1.0)
        assert server.machine.stored(lent)
        for _ in range(20):
            host.now += 1.0
            server.serve(lambda: True, seconds=1.0)
        assert not server.machine.stored(lent)


def test_on_asyncio_four_processes_share_the_lock() -> None:
    async def lease() -> None:
        addresses = on_loopback(NAMES)
        async with (
            Asyncio(process(NAMES[0], 0.2), addresses) as server,
            Asyncio(process(NAMES[1]), addresses) as store,
            Asyncio(process(NAMES[2]), addresses) as ann,
            Asyncio(process(NAMES[3]), addresses) as bob,
        ):
            ann.call("lock")
            assert await ann.until(lambda: bool(ann.machine.stored(has)), seconds=10.0)
            ann.call("write")
            bob.call("lock")
            assert await bob.until(lambda: bool(bob.machine.stored(has)), seconds=10.0)
            bob.call("write")
            assert await store.until(lambda: len(store.machine.stored(wrote)) == 2, seconds=10.0)
            bob.call("unlock")
            assert await server.until(lambda: not server.machine.stored(lent), seconds=10.0)
            assert not await server.until(lambda: False, seconds=0.01)
            assert [driver.dropped for driver in (server, store, ann, bob)] == [0] * 4
            assert [driver.process.refused for driver in (server, store, ann, bob)] == [0] * 4

    asyncio.run(lease())


def test_on_asyncio_a_peer_that_comes_later_gets_its_frames() -> None:
    async def late() -> None:
        addresses = on_loopback(NAMES)
        async with Asyncio(process(("client", "ann")), addresses) as ann:
            ann.call("lock")
            await asyncio.sleep(0.2)
            async with Asyncio(process(("server",)), addresses):
                assert await ann.until(lambda: bool(ann.machine.stored(has)), seconds=10.0)

    asyncio.run(late())


def test_on_asyncio_other_bytes_are_counted_and_a_long_line_ends_the_connection() -> None:
    async def noise() -> None:
        addresses = on_loopback(NAMES)
        async with Asyncio(process(("server",)), addresses) as server:
            reader, writer = await asyncio.open_connection(*place(addresses["server",]))
            writer.write(b'nonsense\n["want",["eve"]]\n')
            assert await server.until(lambda: server.process.refused == 2, seconds=10.0)
            writer.write(b"a" * 200_000)
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10.0) == b""
            writer.close()

    asyncio.run(noise())


@pytest.mark.parametrize("driver", [ZeroMQ, Asyncio])
def test_an_address_that_other_hosts_reach_needs_a_trusted_network(
    driver: type[ZeroMQ] | type[Asyncio],
) -> None:
    addresses: dict[Name, str] = {("server",): "0.0.0.0:7400"}
    with pytest.raises(ValueError, match="pass trusted_network=True"):
        driver(process(("server",)), addresses)
    own = listening_place(process(("server",)), addresses, trusted_network=True)
    assert own == "0.0.0.0:7400"


@pytest.mark.parametrize("address", ["", "7400", ":7400", "localhost:", "localhost:x"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ValueError, match="want host:port"):
        place(address)


def test_an_ipv6_host_is_in_brackets() -> None:
    assert place("[::1]:7400") == ("::1", 7400)


def test_nobody_else_gets_a_port_before_its_process_listens() -> None:
    addresses = on_loopback(NAMES)
    for address in addresses.values():
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(place(address))
    with ZeroMQ(process(("server",)), addresses):
        pass


def test_frames_wait_for_a_peer_that_listens_when_its_sender_has_ended() -> None:
    addresses = on_loopback(NAMES)
    with ZeroMQ(process(("client", "ann")), addresses, linger_s=60.0) as ann:
        ann.call("lock")
        ending = Thread(target=ann.close)
        ending.start()
        ending.join(1.0)  # more than the default of linger_s
        with ZeroMQ(process(("server",)), addresses) as server:
            assert server.serve(lambda: bool(server.machine.stored(lent)), seconds=10.0)
        ended(ending)


def test_a_taken_port_is_told_with_the_process() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        addresses: dict[Name, str] = {("server",): f"127.0.0.1:{taken.getsockname()[1]}"}
        with pytest.raises(OSError, match=r"\('server',\) cannot listen on 127.0.0.1"):
            ZeroMQ(process(("server",)), addresses)
