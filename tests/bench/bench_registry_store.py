"""How long 1,000 ranks need to register at a registry, alone and over etcd.

    python -m tests.bench.bench_registry_store

Ranks, registry and etcd (one member) are processes of this machine. Every rank registers once, with
64 requests under way at a time. The goal is 5 s over etcd.
"""

import asyncio
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Final

import aiohttp
import msgspec

from pdproto.registry.wire import Registration
from pdproto.runtime.versions import VERSION
from tests.registry.test_etcd import etcd, registry
from tests.skips import NO_ETCD

RANKS: Final = 1_000
UNDER_WAY: Final = 64
GOAL_S: Final = 5.0


async def register(address: str) -> float:
    """Register all ranks. Returns the seconds until the registry says that they are there."""
    turn = asyncio.Semaphore(UNDER_WAY)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=UNDER_WAY)) as session:
        async def one(rank: int) -> None:
            body = msgspec.json.encode(Registration(
                attn_tp_size=RANKS, attn_tp_rank=rank, rank_ip="10.0.0.1", rank_port=5_000,
                incarnation=1, version=VERSION, name=f"prefill-{rank}"))
            async with turn, session.put(f"http://{address}/route", data=body) as answer:
                if answer.status != 200:
                    raise AssertionError(f"{answer.status} {await answer.text()}")

        began = perf_counter()
        await asyncio.gather(*(one(rank) for rank in range(RANKS)))
        async with session.get(f"http://{address}/health") as answer:
            if answer.status != 200:
                raise AssertionError(f"{answer.status} {await answer.text()}")
        return perf_counter() - began


def main() -> int:
    """Print the times. Returns 2 if there is no etcd."""
    if shutil.which("etcd") is None:
        sys.stderr.write(f"{NO_ETCD}\n")
        return 2
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        address, _ = opened.enter_context(registry(""))
        alone_s = asyncio.run(register(address))
        [member] = opened.enter_context(etcd(folder, 1))
        address, _ = opened.enter_context(registry(member.url))
        shared_s = asyncio.run(register(address))
    sys.stdout.write(f"{RANKS:,} ranks: alone {alone_s:.2f} s, over etcd {shared_s:.2f} s "
                     f"({shared_s / alone_s:.1f} times; the goal is {GOAL_S:g} s)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
