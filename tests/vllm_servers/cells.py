"""The cells: what is served how, what must hold, and the defect under which each is red."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from examples.vllm_servers.serving import NIXL, OURS

DEFECT: Final = "VLLM_SERVERS_DEFECT"  # in the environment of a server: see defective.py


@dataclass(frozen=True, slots=True)
class Layout:
    """How a pair is started. Flags beside those of every server. extra: settings of the connector.
    """

    connector: str = OURS
    prefill: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    policy: str = "fail"


LEASE_S: Final = 4.0  # for how long prefill waits for a decode that never calls
SOON: Final = {"waits": {"bootstrap_timeout": LEASE_S}}
FEW: Final = ("--num-gpu-blocks-override", "80", "--no-enable-prefix-caching")

LAYOUTS: Final[Mapping[str, Layout]] = {
    "plain": Layout(),
    "landing": Layout(extra={"direct": False}),
    "shm": Layout(extra={"engine": "shm", "direct": False}),
    "nixl": Layout(NIXL),
    "late": Layout(prefill=FEW, extra=SOON),
    "late-recompute": Layout(prefill=FEW, extra=SOON, policy="recompute"),
    "short": Layout(decode=("--num-gpu-blocks-override", "68")),
    "tp-2-1": Layout(prefill=("--tensor-parallel-size", "2")),
    "tp-1-2": Layout(decode=("--tensor-parallel-size", "2")),
    "decode-block-64": Layout(decode=("--block-size", "64")),
    "decode-bfloat16": Layout(decode=("--dtype", "bfloat16")),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """check: of checks.py. quick: part of the subset that is done in a few minutes."""

    name: str
    layout: str
    check: str
    asserts: str
    defect: str
    quick: bool = False


CELLS: Final = (
    Cell("equality", "plain", "equality",
         "greedy tokens and log probabilities are those of one server; over TCP, into the blocks",
         "wrong-block", quick=True),
    Cell("half leave", "plain", "half_leave",
         "of 120 clients half close their connection: the others are served, nothing is left",
         "end-untold", quick=True),
    Cell("prefill stopped", "plain", "prefill_stopped",
         "prefill stands still for 8 s while a client waits and another leaves: both servers live",
         "told-twice", quick=True),
    Cell("kill -9 prefill", "plain", "kill_prefill",
         "with 60 in flight each request ends within 10 s; decode serves with the next prefill",
         "loss-unnoticed", quick=True),
    Cell("kill -9 decode", "plain", "kill_decode",
         "with 60 in flight each request ends within 10 s; prefill serves with the next decode",
         "wrong-block", quick=True),
    Cell("late read", "late", "late_read",
         "decode is asked after prefill has given the blocks to others: an error within 10 s",
         "blocks-given-early"),
    Cell("late read, recomputed", "late-recompute", "late_read",
         "the same where decode computes what it cannot load: the right tokens within 10 s",
         "blocks-given-early"),
    Cell("memory short", "short", "equality",
         "decode has memory for a few requests at a time: they wait, or are computed again",
         "wrong-block"),
    Cell("staging memory", "landing", "equality", "over TCP, through staging memory",
         "wrong-block"),
    Cell("shared memory", "shm", "equality", "through shared memory", "wrong-block"),
    Cell("TP 2 -> 1", "tp-2-1", "equality_short", "two tensor-parallel ranks into one",
         "heads-swapped"),
    Cell("TP 1 -> 2", "tp-1-2", "equality_short", "one rank into two", "heads-swapped"),
    Cell("block size differs", "decode-block-64", "differs",
         "decode with blocks of 64 tokens is refused with both sizes", "misfit-unnoticed"),
    Cell("dtype differs", "decode-bfloat16", "differs",
         "decode with a KV cache of bfloat16 is refused with both dtypes", "misfit-unnoticed"),
    Cell("NixlConnector", "nixl", "equality", "vLLM's own connector, the control",
         "nixl-wrong-block"),
)
