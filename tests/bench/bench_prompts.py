"""What binding a hand-over to its prompt costs each end: `python -m tests.bench.bench_prompts`.

SGLang has the tokens as an array, vLLM as a list. Prints the fastest of RUNS runs, and beside it
its two parts: the bytes of the tokens, and their digest. No part can be left out. Of a list each
number is an object, so no way to its bytes takes less than half of the whole: beside `array("I")`,
`struct` takes as long, msgpack 1.3 times, `marshal` 1.5, NumPy 2.9 and more.

Then what it costs decode to check the seal of an offer (pdproto/vllm/seals.py), and what either
costs vLLM's scheduler, which finds it done (pdproto/vllm/ahead.py).
"""

import random
import sys
from array import array
from collections.abc import Callable
from hashlib import sha256
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from pdproto.items.prompts import name_of
from pdproto.transport.keys import new_secret, write_members
from pdproto.transport.settings import Settings
from pdproto.vllm.ahead import found
from pdproto.vllm.offer import VERSION, Offer, offer_in
from pdproto.vllm.prompts import prompt_of
from pdproto.vllm.seals import Seals
from tests.vllm.pair import LAYOUT, request

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
    of_sglang, encoded = array("q", tokens), array("I", tokens)
    for what, function in (
        ("under SGLang", lambda: name_of(of_sglang, None)),
        ("under vLLM", lambda: prompt_of(asked)),
        ("  of it: bytes of a list", lambda: array("I", tokens)),
        ("  of it: SHA-256 of them", lambda: sha256(encoded).digest()),
        ("  in vLLM's scheduler", lambda: found(asked, prompt_of)),
    ):
        print(f"{what:26} {fastest(function):6.1f} us for {TOKENS:,} tokens", flush=True)  # noqa: T201 - this is a command
    for what, seals in sealing():
        told = offer_in(seals.sealed(Offer(
            VERSION, "7", TOKENS, TOKENS, [0], [(0, 0, "one/p", "tcp://10.0.0.9:1")], dict(LAYOUT),
            dict(prompt_of(asked)))).params())
        print(f"{what:26} {fastest(lambda: seals.doubt(told)):6.1f} us", flush=True)  # noqa: B023, T201 - called here
    return 0


def sealing() -> list[tuple[str, Seals]]:
    """Those of a cluster with a secret, and of one with keys of members."""
    with TemporaryDirectory() as folder:
        (member,) = write_members(folder, ["one"])
        return [("seal by a secret", Seals(Settings(secret=new_secret()))),
                ("seal by a member's key", Seals(Settings(keys=member)))]


if __name__ == "__main__":
    sys.exit(main())
