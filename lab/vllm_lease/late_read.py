"""Decode asks for a request after prefill has stopped waiting, and has used its blocks for others.

    python -m lab.vllm_lease.late_read --connector NixlConnector
    python -m lab.vllm_lease.late_read --connector PdprotoConnector

vLLM's own connector reads the blocks all the same, and decode answers with wrong tokens and status
200. PdprotoConnector refuses the request: decode answers with an error at once.

    python -m lab.vllm_lease.late_read --connector NixlConnector --trace out/lease
    pdproto trace --system vllm-lease out/lease/*.jsonl

The second command replays the run against tables that describe the lease (lease_trace.py).
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Mapping
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
from lab.vllm_lease import lease_trace

WAITS_S: Final = 6
REQUESTS: Final = 3
OTHERS: Final = 20
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    NIXL: {"kv_lease_duration": WAITS_S},
    OURS: {"waits": {"bootstrap_timeout": float(WAITS_S)}},
}
TRACED: Final = "lab.vllm_lease.traced_nixl"
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
    parser.add_argument("--trace", metavar="FOLDER", type=Path,
                        help=f"write what {NIXL} does there, for pdproto trace")
    told = parser.parse_args()
    if told.trace and told.connector != NIXL:
        parser.error(f"--trace is for {NIXL}")
    with tempfile.TemporaryDirectory(prefix="pdproto-vllm-") as folder:
        try:
            wrong = show(Path(folder), told.connector, told.trace)
        except ServerError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 1 if wrong else 0


def show(folder: Path, connector: str, trace: Path | None = None) -> int:
    """Returns how many answers are wrong."""
    model, wrong = tiny_model.make(folder / "llama"), set()
    module: dict[str, Any] = {"kv_connector_module_path": TRACED} if trace else {}
    with Servers(folder / "log") as servers:
        prefill, decode = (
            servers.start(role, model, flags, transfer=transfer_config(
                role, connector, SETTINGS[connector],
                **module),
                env={lease_trace.EVENTS: str(folder / role)} if trace else {})
            for role, flags in ((PRODUCER, FEW_BLOCKS), (CONSUMER, ())))
        for server in (prefill, decode):
            server.wait_healthy()
        prompts = [prompt(number) for number in range(1 + REQUESTS)]
        right = [complete(prefill, one, 16)["choices"][0]["token_ids"] for one in prompts]
        params = [complete(prefill, one, 1, dict(FOR_DECODE))["kv_transfer_params"]
                  for one in prompts]
        _say(f"{connector}: decode is asked for the first request at once, and for the others "
             f"after {WAITS_S + 3} s, in which prefill serves {OTHERS} more")
        for number, (one, given, want) in enumerate(zip(prompts, params, right, strict=True)):
            if number == 1:
                time.sleep(WAITS_S + 3)
                for other in range(OTHERS):
                    complete(prefill, prompt(100 + other), 1, dict(FOR_DECODE) if trace else None)
            if not _is_right(decode, one, given, want):
                wrong.add(given.get("remote_request_id"))
        time.sleep(1.0)
        complete(prefill, prompts[0], 1)  # prefill hears of reads in the steps of its engine
    if trace is not None:
        made, read = (lease_trace.read(folder / role) for role in (PRODUCER, CONSUMER))
        _say("wrote " + " ".join(map(str, lease_trace.write(trace, made, read, wrong))))
    return len(wrong)


def _is_right(decode: Server, tokens: list[int], params: dict[str, Any], want: list[int]) -> bool:
    """Whether decode answers with these tokens, or with an error."""
    began, got = time.monotonic(), None
    try:
        got = complete(decode, tokens, 16, params)["choices"][0]["token_ids"]
        verdict = "right" if got == want else f"WRONG with status 200: {got[:5]} ..."
    except OSError as error:
        verdict = f"refused: {error}"
    _say(f"  {len(tokens):3} tokens, want {want[:5]} ...: {verdict}, "
         f"{time.monotonic() - began:.2f} s")
    return got in (None, want)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
