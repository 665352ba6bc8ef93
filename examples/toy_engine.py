"""A serving engine that hands over: a prefill process and a decode process of a toy model.

python examples/toy_engine.py

The KV of a token depends on every token before it, and the answer on all of the KV, as in a real
model. So an answer is right only if each page came from the right prompt, in its place. Decode asks
for ten prompts at once, has pages for three, and computes a prompt itself if its hand-over fails.
"""

import asyncio
import hashlib
import multiprocessing
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from multiprocessing.connection import Connection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto import (
    DecodeNode,
    HandoffFailedError,
    KVPoll,
    PrefillNode,
    SinkPages,
    SourcePages,
    until,
)
from pdproto.engine.engines import open_sink, open_source

PAGE_TOKENS: Final = 4
POOL: Final = (13, PAGE_TOKENS, 1, 32)  # [page, token, head, dim], uint8
PROMPTS: Final = [list(range(n, 2 * n)) for n in range(6, 16)]


def compute(tokens: Sequence[int]) -> NDArray[np.uint8]:
    """The KV of a prompt: uint8 [page, token, 1, dim]; the last page is filled with zeros."""
    rows, digest = [], b""
    for token in tokens:
        digest = hashlib.blake2b(digest + token.to_bytes(4), digest_size=POOL[-1]).digest()
        rows.append(np.frombuffer(digest, np.uint8))
    kv = np.zeros((-(-len(tokens) // PAGE_TOKENS), *POOL[1:]), np.uint8)
    kv.reshape(-1, POOL[-1])[: len(tokens)] = rows
    return kv


def answer(kv: NDArray[np.uint8]) -> str:
    """What the model says after a prompt with this KV."""
    return hashlib.blake2b(kv.tobytes(), digest_size=4).hexdigest()


class Pages:
    """The free pages of a pool."""

    def __init__(self) -> None:
        self._free: Final = list(range(POOL[0]))
        self._given: Final = asyncio.Condition()

    @asynccontextmanager
    async def take(self, count: int) -> AsyncIterator[list[int]]:
        """Wait for so many pages, and give them back at the end."""
        async with self._given:
            await self._given.wait_for(lambda: len(self._free) >= count)
            pages = [self._free.pop() for _ in range(count)]
        yield pages
        async with self._given:
            self._free.extend(pages)
            self._given.notify_all()


async def prefill(to_decode: Connection) -> None:
    """Compute each prompt, and send its pages when decode has named its own."""
    pool, free = np.zeros(POOL, np.uint8), Pages()
    node = PrefillNode("prefill", SourcePages([pool], open_source("tcp")))

    async def serve(room: int, tokens: Sequence[int]) -> None:
        with closing(node.open(room=room)) as sender:
            kv = compute(tokens)
            async with free.take(len(kv)) as pages:
                pool[pages] = kv
                await until(sender, KVPoll.WAITING_FOR_INPUT)
                sender.send(pages)
                await until(sender, KVPoll.SUCCESS)

    with closing(node):
        to_decode.send(node.endpoint)
        await asyncio.gather(*(serve(room, tokens) for room, tokens in enumerate(PROMPTS)))
        await asyncio.to_thread(to_decode.recv)  # decode has all answers


async def decode(to_prefill: Connection) -> list[str]:
    """The answers to all prompts, each from KV that was handed over."""
    pool, free = np.zeros(POOL, np.uint8), Pages()
    node = DecodeNode("decode", SinkPages({"prefill": [pool]}, open_sink("tcp")))
    endpoint = await asyncio.to_thread(to_prefill.recv)

    async def ask(room: int, tokens: Sequence[int]) -> str:
        released, loop = asyncio.Event(), asyncio.get_running_loop()

        def on_released() -> None:
            loop.call_soon_threadsafe(released.set)

        async with free.take(-(-len(tokens) // PAGE_TOKENS)) as pages:
            receiver = node.open(room=room, sources={"prefill": endpoint}, pages=pages, slot=room,
                                 on_released=on_released)
            try:
                await until(receiver, KVPoll.SUCCESS)
                return answer(pool[pages])
            except HandoffFailedError:
                return answer(compute(tokens))
            finally:
                receiver.close()
                await released.wait()  # only now may another request have the pages

    with closing(node):
        answers = await asyncio.gather(*(ask(*each) for each in enumerate(PROMPTS)))
        to_prefill.send("done")
        return answers


def run_prefill(to_decode: Connection) -> None:
    """The prefill process."""
    asyncio.run(prefill(to_decode))


def main() -> None:
    """Start prefill, and compare decode's answers with those of one process."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=run_prefill, args=(theirs,))
    process.start()
    answers = asyncio.run(decode(ours))
    process.join()
    right = [answer(compute(tokens)) for tokens in PROMPTS]
    equal = sum(map(str.__eq__, answers, right))
    print(f"{equal} of {len(PROMPTS)} answers are those of one process")


if __name__ == "__main__":
    main()
