"""SGLang's own classes hand over real pages between processes, through any of its backends.

    python -m examples.sglang_handoff --requests 500 --in-flight 32              # pdproto
    python -m examples.sglang_handoff --requests 500 --in-flight 32 --backend mooncake
    python -m examples.sglang_handoff --pp 2 --prefill-tp 2 --prefix 2

There is no model: a forward pass fills each page with words of its own, and the receiver compares
each byte. Needs the `sglang` extra, and no GPU.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import HEADS, Load, Outcome

COUNTS = (
    ("requests", 200, "hand-overs"), ("in-flight", 16, "hand-overs under way at once"),
    ("layers", 4, "layers of the cache"), ("page-bytes", 4096, "bytes of a page of K, and of V"),
    ("pages", 4, "pages of a request"), ("chunks", 2, "chunks of a request"),
    ("prefix", 0, "pages of a request that decode has cached, at most"),
    ("warm", 0, "first requests that do not count for the rate"),
    ("abort-every", 0, "one of the sides aborts each n-th request (0: none)"),
    ("prefill-tp", 1, "ranks of prefill's tensor parallelism"),
    ("decode-tp", 1, "ranks of decode's tensor parallelism"),
    ("pp", 1, "stages of prefill's pipeline"),
    ("decode-pp", 1, "stages of decode's pipeline: one, or as many as of prefill's"),
    ("dp", 1, "data-parallel ranks of prefill"),
    ("cp", 1, "ranks of prefill's context parallelism"),
    ("port", 18_800, "port of the bootstrap server"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="pdproto", help="backend of SGLang (default: pdproto)")
    parser.add_argument("--engine", default="tcp", help="engine of pdproto (default: tcp)")
    for flag, default, what in COUNTS:
        parser.add_argument(f"--{flag}", type=int, default=default, help=what)
    parser.add_argument("--states", nargs="*", default=(), choices=("swa", "mamba", "dsa"),
                        help="states of the model beside the KV cache")
    parser.add_argument("--latent", action="store_true",
                        help="the same KV on every tensor rank, as under MLA")
    parser.add_argument("--drafts", nargs="*", default=(), choices=("prefill", "decode"),
                        help="the sides that have a draft model")
    parser.add_argument("--query", action="store_true",
                        help="run rooms on data-parallel ranks that only the registry knows")
    parser.add_argument("--timed", action="store_true",
                        help="neither fill nor compare pages, so that only the backend is timed")
    parser.add_argument("--pinned", action="store_true", help="one processor for each side")
    parser.add_argument("--json", metavar="FILE", help="file for the numbers")
    told = vars(parser.parse_args())
    target = told.pop("json")
    load = Load(**told | {"states": tuple(told["states"]),
                          "drafts": tuple(told["drafts"])})
    if load.page_bytes % (8 * HEADS * load.tokens):
        parser.error(f"--page-bytes {load.page_bytes}: want a multiple of "
                     f"{8 * HEADS * load.tokens}")
    try:
        found = run(load, seconds=60.0)
    except TimeoutError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    numbers = summary(load, found)
    for name, value in numbers.items():
        sys.stdout.write(f"{name:>20}  {value}\n")
    if target:
        Path(target).write_text(json.dumps(numbers, indent=2), encoding="utf-8")
    return 0 if not numbers["wrong"] and not numbers["left"] else 1


def summary(load: Load, found: dict[str, Outcome]) -> dict[str, Any]:
    """The numbers of a run, over all decode ranks. The seconds are those of the slowest rank."""
    decode = [outcome for name, outcome in found.items() if name.startswith("decode")]
    succeeded = set.intersection(*(set(outcome.succeeded) for outcome in decode))
    failed = set().union(*(outcome.failed for outcome in decode))
    millis = np.array([s for outcome in decode for s in outcome.latencies.values()] or [0.0]) * 1e3
    seconds = max(1e-9, *(outcome.seconds for outcome in decode))
    processor = {side: sum(outcome.processor_s for name, outcome in found.items()
                           if name.startswith(side)) for side in ("prefill", "decode")}
    reasons = sorted({why.partition(": ")[2]
                      for outcome in found.values() for why in outcome.failed.values()})
    return {
        "backend": load.backend,
        "succeeded": len(succeeded),
        "failed": len(failed),
        "reasons": reasons,
        "wrong": sorted({room for outcome in decode for room in outcome.wrong}),
        "left": {name: outcome.left for name, outcome in found.items() if outcome.left},
        "hand-overs/s": round((len(succeeded) - load.warm) / seconds, 1),
        "p50 ms": round(float(np.percentile(millis, 50)), 3),
        "p99 ms": round(float(np.percentile(millis, 99)), 3),
        "processor ms": {side: round(spent * 1e3 / load.requests, 3)
                         for side, spent in processor.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
