"""SGLang's own classes hand over real pages between two processes, through any of its backends.

    python -m examples.sglang_handoff --requests 500 --in-flight 32              # pdproto
    python -m examples.sglang_handoff --requests 500 --in-flight 32 --backend mooncake

There is no model: a forward pass fills pages with words that no other page has, and each byte is
compared where it arrives. Needs the `sglang` extra, and no GPU. For SGLang's own Mooncake backend
set MOONCAKE_PROTOCOL=tcp MC_FORCE_TCP=1 SGLANG_HOST_IP=127.0.0.1.
"""

import argparse
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import numpy as np

from examples.sglang_handoff.load import START_S, Load, Outcome, live


def run(load: Load, seconds: float) -> dict[str, Outcome]:
    """Both processes to their end. Raises TimeoutError."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, {}
    for name in ("prefill", "decode"):
        ours, theirs = context.Pipe()
        process = context.Process(target=live, args=(name, load, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes[name], processes[name] = ours, process
        try:
            started = ours.poll(START_S) and ours.recv() == "ready"
        except EOFError:
            started = False
        if not started:
            raise TimeoutError(f"{name} did not start: what it said is above")
    try:
        _route(load, pipes, seconds)
        return {name: _outcome(name, pipe) for name, pipe in pipes.items()}
    finally:
        for process in processes.values():
            process.join(5)
            process.kill()


def _route(load: Load, pipes: dict[str, Any], seconds: float) -> None:
    """What a router does: name each room to both servers, so many at once."""
    upcoming, flying, done = 1, 0, 0
    while done < load.requests:
        fresh = list(range(upcoming, min(upcoming + load.in_flight - flying, load.requests + 1)))
        if fresh:
            for pipe in pipes.values():
                pipe.send(fresh)
            upcoming, flying = upcoming + len(fresh), flying + len(fresh)
        if not pipes["decode"].poll(seconds):
            raise TimeoutError(f"{done} of {load.requests} requests ended, and no other "
                               f"within {seconds:g} s")
        pipes["decode"].recv()
        done, flying = done + 1, flying - 1
    for pipe in pipes.values():
        pipe.send(None)


def _outcome(name: str, pipe: Any) -> Outcome:
    if not pipe.poll(60):
        raise TimeoutError(f"{name} did not end")
    outcome = pipe.recv()
    assert isinstance(outcome, Outcome)  # noqa: S101 - what ranks send last
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="pdproto", help="of SGLang (default: pdproto)")
    for flag, default, what in (
        ("requests", 200, "hand-overs"), ("in-flight", 16, "of them at once"),
        ("layers", 4, "of the cache"), ("page-bytes", 4096, "bytes of a page of K, and of V"),
        ("pages", 4, "of a request"), ("chunks", 2, "in which they are sent"),
        ("abort-every", 0, "n: each n-th request is aborted by one of the sides"),
        ("port", 18_800, "of the bootstrap server"),
    ):
        parser.add_argument(f"--{flag}", type=int, default=default, help=what)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    told = vars(parser.parse_args())
    target = told.pop("json")
    load = Load(**told)
    if load.page_bytes % 8:
        parser.error(f"--page-bytes {load.page_bytes}: want a multiple of 8")
    try:
        found = run(load, seconds=60.0)
    except TimeoutError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    numbers = _numbers(load, found)
    for name, value in numbers.items():
        sys.stdout.write(f"{name:>20}  {value}\n")
    if target:
        Path(target).write_text(json.dumps(numbers, indent=2), encoding="utf-8")
    return 0 if not numbers["wrong"] and not numbers["left"] else 1


def _numbers(load: Load, found: dict[str, Outcome]) -> dict[str, Any]:
    decode = found["decode"]
    done = len(decode.succeeded)
    millis = np.array(decode.latencies or [0.0]) * 1e3
    reasons = sorted({why.partition(": ")[2] for why in decode.failed.values()})
    return {
        "backend": load.backend,
        "succeeded": done,
        "failed": len(decode.failed),
        "reasons": reasons,
        "wrong": decode.wrong,
        "left": {name: outcome.left for name, outcome in found.items() if outcome.left},
        "hand-overs/s": round(done / max(decode.seconds, 1e-9), 1),
        "p50 ms": round(float(np.percentile(millis, 50)), 3),
        "p99 ms": round(float(np.percentile(millis, 99)), 3),
    }


if __name__ == "__main__":
    sys.exit(main())
