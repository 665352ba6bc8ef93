"""A chat answered by real SGLang servers, prefill and decode apart, without a GPU or on one.

    python -m examples.sglang_servers                 serves until Ctrl-C (make serve-sglang)
    python -m examples.sglang_servers --once          asks one question, and ends
    python -m examples.sglang_servers --device cuda   both servers on one NVIDIA GPU

The model has random weights and knows single bytes only: its answers are no words. It is made in a
second; SGLang's import takes 10 to 30.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from examples.servers import demo
from examples.sglang_servers import tiny_models
from examples.sglang_servers.serving import GpuServers, Servers

TEXT: Final = "Who holds my pages?"
NEW_TOKENS: Final = 24
QUESTION: Final = demo.Question(
    TEXT, "/v1/chat/completions",
    {"model": "tiny", "messages": [{"role": "user", "content": TEXT}],
     "max_tokens": NEW_TOKENS, "temperature": 0},
    lambda told: str(told["choices"][0]["message"]["content"]))
SERVERS: Final = {"cpu": Servers, "cuda": GpuServers}
SMALL: Final = ("--max-total-tokens", "16384", "--max-running-requests", "64")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--once", action="store_true", help="ask one question, and end")
    parser.add_argument("--model", default="llama", choices=sorted(tiny_models.MODELS))
    parser.add_argument("--device", default="cpu", choices=sorted(SERVERS))
    parser.add_argument("--backend", default="pdproto", help="backend of SGLang (default: pdproto)")
    told = parser.parse_args()

    def serve(folder: Path) -> None:
        model = tiny_models.make(told.model, folder / told.model)
        demo.say(f"made {told.model}, {tiny_models.VOCABULARY} tokens, random weights; SGLang is "
                 f"imported ...")
        with SERVERS[told.device](folder / "log") as servers:
            prefill = servers.prefill("prefill", model, SMALL, backend=told.backend)
            decode = servers.decode("decode", model, SMALL, backend=told.backend)
            demo.show(servers, (prefill, decode),
                      lambda: servers.router("router", [prefill], [decode]), QUESTION,
                      once=told.once)

    return demo.run("pdproto-sglang-", serve)


if __name__ == "__main__":
    sys.exit(main())
