"""A text completed by real vLLM servers, prefill and decode apart, without a GPU or on one.

    python -m examples.vllm_servers                 serves until Ctrl-C (make serve-vllm)
    python -m examples.vllm_servers --once          asks one question, and ends
    python -m examples.vllm_servers --device cuda   its KV caches are on the first GPU

The model has random weights and knows single bytes only: its answers are no words. vLLM's import
takes half a minute, and longer on a loaded machine.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from examples.servers import demo
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

TEXT: Final = "Who holds my blocks?"
QUESTION: Final = demo.Question(
    TEXT, "/v1/completions", {"model": MODEL, "prompt": TEXT, "max_tokens": 24, "temperature": 0},
    lambda told: str(told["choices"][0]["text"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--once", action="store_true", help="ask one question, and end")
    parser.add_argument("--connector", default=OURS, choices=[OURS, NIXL])
    parser.add_argument("--device", default=CPU, choices=DEVICES, help="where the KV caches are")
    told = parser.parse_args()

    def serve(folder: Path) -> None:
        model = tiny_model.make(folder / "llama")
        demo.say("made a model with random weights; vLLM is imported ...")
        with servers_on(told.device)(folder / "log") as servers:
            prefill, decode = (
                servers.start(name, model, transfer=transfer_config(role, told.connector))
                for name, role in (("prefill", PRODUCER), ("decode", CONSUMER)))
            demo.show(servers, (prefill, decode),
                      lambda: servers.proxy("proxy", [prefill], [decode]), QUESTION,
                      once=told.once)

    return demo.run("pdproto-vllm-", serve)


if __name__ == "__main__":
    sys.exit(main())
