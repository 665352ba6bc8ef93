"""The asyncio form of a look-up."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.registry.aio import located
from pdproto.registry.app import RegistryServer
from pdproto.registry.finder import Finder
from pdproto.runtime.errors import LocalProtocolError
from tests.registry.test_finder import FIRST, SECOND, finder, registrar
from tests.registry.test_trace import Traced
from tests.waiting import PATIENCE_S


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    traces = Traced(tmp_path)
    yield traces
    traces.opened.close()


def test_tasks_wait_until_every_rank_has_registered(traced: Traced) -> None:
    async def waits(server: RegistryServer, finding: Finder) -> None:
        first, other = (asyncio.ensure_future(located(finding)) for _ in range(2))
        left = asyncio.ensure_future(located(finding))
        await asyncio.sleep(0.3)  # some look-ups fail
        assert not first.done()
        assert finding.problem
        left.cancel()
        with registrar(traced, server, SECOND):
            async with asyncio.timeout(PATIENCE_S):
                addresses = await first
                assert await other is addresses is await located(finding)
        assert [addresses[rank].rank_port for rank in (FIRST, SECOND)] == [5001, 5011]
        assert left.cancelled()
        assert finding.watchers == ()

    with (RegistryServer() as server, registrar(traced, server, FIRST),
          finder(server, FIRST, SECOND) as finding):
        asyncio.run(waits(server, finding))


def test_a_finder_that_is_stopped_ends_the_wait() -> None:
    async def waits(finding: Finder) -> None:
        task = asyncio.ensure_future(located(finding))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(finding.stop)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(LocalProtocolError, match="has been stopped; its last look-up: "):
                await task
            with pytest.raises(LocalProtocolError, match="has been stopped"):
                await located(finding)

    with RegistryServer() as server, finder(server, FIRST) as finding:
        asyncio.run(waits(finding))
    asyncio.run(waits(Finder("127.0.0.1:1", "d0", [FIRST])))  # one that was never started
