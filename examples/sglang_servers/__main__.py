"""A chat answered by real SGLang servers, prefill and decode apart, without a GPU or on one.

    python -m examples.sglang_servers                 serves until Ctrl-C (make serve-sglang)
    python -m examples.sglang_servers --once          asks one question, and ends
    python -m examples.sglang_servers --device cuda   both servers on one NVIDIA GPU

The model has random weights and knows single bytes only: its answers are no words. It is made in a
second; SGLang's import takes 10 to 30.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from examples.servers.serving import Server, ServerError
from examples.sglang_servers import tiny_models
from examples.sglang_servers.serving import GpuServers, Servers

QUESTION: Final = "Who holds my pages?"
NEW_TOKENS: Final = 24
SERVERS: Final = {"cpu": Servers, "cuda": GpuServers}
SMALL: Final = ("--max-total-tokens", "16384", "--max-running-requests", "64")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--once", action="store_true", help="ask one question, and end")
    parser.add_argument("--model", default="llama", choices=sorted(tiny_models.MODELS))
    parser.add_argument("--device", default="cpu", choices=sorted(SERVERS))
    parser.add_argument("--backend", default="pdproto", help="backend of SGLang (default: pdproto)")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pdproto-sglang-") as folder:
        try:
            serve(Path(folder), told.model, told.backend, SERVERS[told.device], once=told.once)
        except ServerError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except KeyboardInterrupt:
            _say("ended")
    return 0


def serve(
    folder: Path, name: str, backend: str, kind: type[Servers] = Servers, *, once: bool
) -> None:
    """kind: of servers. Raises ServerError if one does not start, KeyboardInterrupt at Ctrl-C."""
    began = time.monotonic()
    model = tiny_models.make(name, folder / name)
    _say(f"made {name}, {tiny_models.VOCABULARY} tokens, random weights; SGLang is imported ...")
    with kind(folder / "log") as servers:
        prefill = servers.prefill("prefill", model, SMALL, backend=backend)
        decode = servers.decode("decode", model, SMALL, backend=backend)
        for server in (prefill, decode):
            server.wait_healthy()
            _say(f"{server.name:8} {server.url}   {server.log}")
        router = servers.router("router", [prefill], [decode])
        router.wait_healthy()
        _say(f"router   {router.url}   after {time.monotonic() - began:.0f} s")
        _ask(router)
        if once:
            return
        _say(f"ask it yourself, Ctrl-C ends all:\n  {curl(router)}")
        while all(server.is_alive() for server in servers.started):
            time.sleep(0.5)
        raise ServerError("a server has died: "
                          + next(s.tail() for s in servers.started if not s.is_alive()))


def question(text: str) -> dict[str, object]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}],
            "max_tokens": NEW_TOKENS, "temperature": 0}


def curl(router: Server) -> str:
    return (f"curl {router.url}/v1/chat/completions -H 'Content-Type: application/json' "
            f"-d '{json.dumps(question(QUESTION))}'")


def _ask(router: Server) -> None:
    try:
        answer = router.post("/v1/chat/completions", question(QUESTION))
    except OSError as error:
        raise ServerError(f"no answer: {error}; {router.tail()}") from None
    _say(f"you:    {QUESTION}")
    _say(f"model:  {answer['choices'][0]['message']['content']!r}   "
         f"({answer['usage']['completion_tokens']} tokens)")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
