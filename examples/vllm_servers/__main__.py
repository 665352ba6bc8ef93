"""A text completed by real vLLM servers, prefill and decode apart, without a GPU or on one.

    python -m examples.vllm_servers                 serves until Ctrl-C (make serve-vllm)
    python -m examples.vllm_servers --once          asks one question, and ends
    python -m examples.vllm_servers --device cuda   its KV caches are on the first GPU

The model has random weights and knows single bytes only: its answers are no words. vLLM's import
takes half a minute, and longer on a loaded machine.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from examples.servers.serving import Server, ServerError
from examples.vllm_servers import tiny_model
from examples.vllm_servers.serving import (
    CONSUMER,
    CPU,
    DEVICES,
    MODEL,
    NIXL,
    OURS,
    PRODUCER,
    servers_on,
    transfer_config,
)

QUESTION: Final = "Who holds my blocks?"
NEW_TOKENS: Final = 24


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--once", action="store_true", help="ask one question, and end")
    parser.add_argument("--connector", default=OURS, choices=[OURS, NIXL])
    parser.add_argument("--device", default=CPU, choices=DEVICES, help="where the KV caches are")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pdproto-vllm-") as folder:
        try:
            serve(Path(folder), told.connector, told.device, once=told.once)
        except ServerError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except KeyboardInterrupt:
            _say("ended")
    return 0


def serve(folder: Path, connector: str, device: str = CPU, *, once: bool) -> None:
    """Raises ServerError if a server does not start, and KeyboardInterrupt at Ctrl-C."""
    began = time.monotonic()
    model = tiny_model.make(folder / "llama")
    _say("made a model with random weights; vLLM is imported ...")
    with servers_on(device)(folder / "log") as servers:
        prefill, decode = (servers.start(name, model, transfer=transfer_config(role, connector))
                           for name, role in (("prefill", PRODUCER), ("decode", CONSUMER)))
        for server in (prefill, decode):
            server.wait_healthy()
            _say(f"{server.name:8} {server.url}   {server.log}")
        proxy = servers.proxy("proxy", [prefill], [decode])
        proxy.wait_healthy()
        _say(f"proxy    {proxy.url}   after {time.monotonic() - began:.0f} s")
        _ask(proxy)
        if once:
            return
        _say(f"ask it yourself, Ctrl-C ends all:\n  {curl(proxy)}")
        while all(server.is_alive() for server in servers.started):
            time.sleep(0.5)
        raise ServerError("a server has died: "
                          + next(s.tail() for s in servers.started if not s.is_alive()))


def question() -> dict[str, object]:
    return {"model": MODEL, "prompt": QUESTION, "max_tokens": NEW_TOKENS, "temperature": 0}


def curl(proxy: Server) -> str:
    return (f"curl {proxy.url}/v1/completions -H 'Content-Type: application/json' "
            f"-d '{json.dumps(question())}'")


def _ask(proxy: Server) -> None:
    try:
        answer = proxy.post("/v1/completions", question())
    except OSError as error:
        raise ServerError(f"no answer: {error}; {proxy.tail()}") from None
    _say(f"you:    {QUESTION}")
    _say(f"model:  {answer['choices'][0]['text']!r}   "
         f"({answer['usage']['completion_tokens']} tokens)")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
