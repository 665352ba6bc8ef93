"""What the name of a prompt costs each end: `python -m tests.bench.bench_prompts`.

SGLang has the tokens as an array, vLLM as a list. Prints the fastest of RUNS runs, and beside it
its two parts: the bytes of the tokens, and their digest. No part can be left out.
"""

import random
import sys
from array import array
from collections.abc import Callable
from hashlib import sha256
from time import perf_counter
from typing import Any, Final

import msgspec

from pdproto.items.prompts import name_of
from pdproto.vllm.prompts import prompt_of
from tests.vllm.pair import request

TOKENS: Final = 8_000
RUNS: Final = 500


def fastest(function: Callable[[], object]) -> float:
    """Microseconds."""
    def timed() -> float:
        began = perf_counter()
        function()
        return perf_counter() - began
    return min(timed() for _ in range(RUNS)) * 1e6


def main(*_: Any) -> int:
    """Print the lines."""
    tokens = random.Random(1).choices(range(150_000), k=TOKENS)  # noqa: S311
    asked = request("r", TOKENS, None, tokens)
    of_sglang, encoded = array("q", tokens), msgspec.msgpack.encode(tokens)
    for what, function in (
        ("under SGLang", lambda: name_of(of_sglang, None)),
        ("under vLLM", lambda: prompt_of(asked)),
        ("  of it: bytes of a list", lambda: msgspec.msgpack.encode(tokens)),
        ("  of it: SHA-256 of them", lambda: sha256(encoded).digest()),
    ):
        print(f"{what:26} {fastest(function):6.1f} us for {TOKENS:,} tokens", flush=True)  # noqa: T201 - this is a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
