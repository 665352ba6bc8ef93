"""Decode asks for a request after prefill has stopped waiting, and has used its blocks for others.

    python -m examples.vllm_servers.late_read --connector NixlConnector
    python -m examples.vllm_servers.late_read --connector PdprotoConnector

vLLM's own connector reads the blocks all the same, and decode answers with wrong tokens and status
200. PdprotoConnector refuses the request: decode answers with an error at once.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from examples.servers.serving import Server, ServerError
from examples.vllm_servers import tiny_model
from examples.vllm_servers.proxy import FOR_DECODE
from examples.vllm_servers.serving import (
    CONSUMER,
    MODEL,
    NIXL,
    OURS,
    PRODUCER,
    Servers,
    transfer_config,
)

WAITS_S: Final = 6
REQUESTS: Final = 3
OTHERS: Final = 20
SETTINGS: Final = {
    NIXL: {"kv_lease_duration": WAITS_S},
    OURS: {"waits": {"bootstrap_timeout": float(WAITS_S)}},
}
FEW_BLOCKS: Final = ("--num-gpu-blocks-override", "80", "--no-enable-prefix-caching")


def prompt(number: int) -> list[int]:
    chance = random.Random(number)  # noqa: S311 - not for secrets
    return [chance.randrange(2, 258) for _ in range(chance.randrange(40, 400))]


def complete(server: Server, tokens: list[int], new: int,
             params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Raises OSError for an error of the server."""
    told: dict[str, Any] = server.post("/v1/completions", {
        "model": MODEL, "prompt": tokens, "max_tokens": new, "temperature": 0, "ignore_eos": True,
        "return_token_ids": True, "kv_transfer_params": params})
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connector", default=OURS, choices=[OURS, NIXL])
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pdproto-vllm-") as folder:
        try:
            wrong = show(Path(folder), told.connector)
        except ServerError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 1 if wrong else 0


def show(folder: Path, connector: str) -> int:
    """Returns how many answers are wrong."""
    model, wrong = tiny_model.make(folder / "llama"), 0
    with Servers(folder / "log") as servers:
        prefill = servers.start("prefill", model, FEW_BLOCKS, transfer=transfer_config(
            PRODUCER, connector, SETTINGS[connector]))
        decode = servers.start("decode", model, transfer=transfer_config(
            CONSUMER, connector, SETTINGS[connector]))
        for server in (prefill, decode):
            server.wait_healthy()
        prompts = [prompt(number) for number in range(REQUESTS)]
        right = [complete(prefill, one, 16)["choices"][0]["token_ids"] for one in prompts]
        params = [complete(prefill, one, 1, dict(FOR_DECODE))["kv_transfer_params"]
                  for one in prompts]
        _say(f"{connector}: {REQUESTS} requests are computed; decode is asked after "
             f"{WAITS_S + 3} s, and {OTHERS} others come to prefill before")
        time.sleep(WAITS_S + 3)
        for number in range(OTHERS):
            complete(prefill, prompt(100 + number), 1)
        for one, given, want in zip(prompts, params, right, strict=True):
            began = time.monotonic()
            try:
                got = complete(decode, one, 16, given)["choices"][0]["token_ids"]
                verdict = "right" if got == want else f"WRONG with status 200: {got[:5]} ..."
                wrong += got != want
            except OSError as error:
                verdict = f"refused: {error}"
            _say(f"  {len(one):3} tokens, want {want[:5]} ...: {verdict}, "
                 f"{time.monotonic() - began:.2f} s")
    return wrong


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
