"""The cells of vLLM: what is served how, what must hold, and what each fails under."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from examples.vllm_servers.serving import HYBRID, NIXL, OURS
from tests.servers.record import Cell, Record
from tests.servers.standstill import IN_FLIGHT, MEANWHILE, STUTTERS, Standstill
from tests.vllm_servers.routers import SMG, VLLM_ROUTER

STANDSTILLS: Final = (
    *(Standstill(who, seconds) for who in ("prefill", "decode") for seconds in (3.0, 8.0, 20.0)),
    Standstill("prefill", 20.0, STUTTERS))
# A peer that is lost once fails what is under way, which may be nothing: their defect lasts.
FEW_UNDER_WAY: Final = ("prefill stands still for 3 s", "decode stands still for 3 s",
                        "decode stands still for 20 s")
DEFECT: Final = "VLLM_SERVERS_DEFECT"  # in the environment of a server: see defective.py
PLUGIN_OFF: Final = "plugin-off"  # a defect of the environment


FOLDER_OF_MODEL: Final = "llama"  # at prefill, and elsewhere at decode


@dataclass(frozen=True, slots=True)
class Layout:
    """How a pair is started. Flags beside those of every server; common: of the reference, too.
    extra: settings of the connector. model: the folder of decode's model, which names it.
    at_prefill: that of prefill's model, and of the reference's. module: has the connector; None:
    vLLM's plug-ins find it. way: flags of the proxy. router: in place of it, of routers.py.
    members: each server has keys of its own, as a member of their cluster. adapters: names, which
    both servers load (adapters.py).
    """

    connector: str = OURS
    prefill: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    policy: str = "fail"
    model: str = FOLDER_OF_MODEL
    at_prefill: str = FOLDER_OF_MODEL
    common: tuple[str, ...] = ()
    module: str | None = "tests.vllm_servers.defective"
    way: tuple[str, ...] = ()
    router: str = ""
    members: bool = False
    adapters: tuple[str, ...] = ()


LEASE_S: Final = 4.0  # for how long prefill waits for a decode that never calls
SOON: Final = {"waits": {"bootstrap_timeout": LEASE_S}}
# On a busy machine with few cores the kernel leaves a process without a core for more than 5 s, the
# default of silent_s. Cells that are not about silence must not see that as the end of a server.
SILENT: Final = {"silent_s": 30.0}
ORPHANED_S: Final = 30.0  # for how long prefill keeps blocks for a decode that is never asked
STEADY: Final = {"waits": {"bootstrap_timeout": ORPHANED_S}, **SILENT}
KILL: Final = {"waits": {"bootstrap_timeout": 6.0}, **SILENT}  # only a kill is noticed soon
SHORT: Final = ("--num-gpu-blocks-override", "68")
TWO: Final = ("--tensor-parallel-size", "2")
RANKS_OF_DATA: Final = ("--data-parallel-size", "2")
CHUNKS: Final = ("--max-num-batched-tokens", "256")
FEW: Final = ("--num-gpu-blocks-override", "80", "--no-enable-prefix-caching")

LAYOUTS: Final[Mapping[str, Layout]] = {
    "plain": Layout(extra=STEADY),
    "defaults": Layout(),
    "suspicious": Layout(extra={"waits": {"bootstrap_timeout": ORPHANED_S}}),
    "stock": Layout(extra=STEADY, module="pdproto.vllm.connector"),
    "landing": Layout(extra={"direct": False, **STEADY}),
    "shm": Layout(extra={"engine": "shm", "direct": False, **STEADY}),
    "plug-in": Layout(extra=STEADY, module=None),
    "nixl": Layout(NIXL),
    # A busy machine takes longer than the lease of 30 s: NixlConnector's late read is seen then.
    "nixl-long-lease": Layout(NIXL, extra={"kv_lease_duration": 300}),
    "patient-nixl": Layout(NIXL, module="tests.vllm_servers.patient_nixl"),
    # Each request stays until the cell has asked the other server for it.
    "kept": Layout(extra={"waits": {"bootstrap_timeout": ORPHANED_S, "keep": 60.0},
                          "keep_pages": 2_000, **SILENT}),
    "late": Layout(prefill=FEW, extra=SOON),
    "late-recompute": Layout(prefill=FEW, extra=SOON, policy="recompute"),
    "at-once": Layout(prefill=CHUNKS, extra=STEADY, way=("--at-once",)),
    "first-token": Layout(decode=("--no-enable-prefix-caching",), extra=STEADY,
                          way=("--first-token",)),
    "short": Layout(decode=SHORT, extra=STEADY),
    "kill": Layout(decode=SHORT, extra=KILL),
    "tp-2-1": Layout(prefill=TWO, extra=STEADY),
    "tp-1-2": Layout(decode=TWO, extra=STEADY),
    "tp-2-2": Layout(prefill=TWO, decode=TWO, extra=STEADY),
    "members": Layout(extra=STEADY, members=True),
    "adapters": Layout(extra=STEADY, adapters=("one", "two")),
    "decode-block-64": Layout(decode=("--block-size", "64")),
    "decode-model": Layout(model="alpaca"),
    "hybrid": Layout(model=HYBRID, at_prefill=HYBRID, common=("--no-enable-prefix-caching",),
                     extra=STEADY),
    **{name: Layout(decode=("--no-enable-prefix-caching",), extra=STEADY, router=name)
       for name in (VLLM_ROUTER, SMG)},
    "dp": Layout(prefill=RANKS_OF_DATA, decode=RANKS_OF_DATA, extra=STEADY),
    "decode-bfloat16": Layout(decode=("--dtype", "bfloat16")),
}


HEAD: Final = """# Real vLLM servers as tests

Generated by `python -m tests.vllm_servers --table` from `tests/vllm_servers/cells.py`; do not edit.

`make test-servers-vllm` makes a tiny model with random weights, starts real prefill and decode
servers of vLLM 0.32.0 and the proxy of `examples/vllm_servers` on a machine without a GPU, and
asserts each line below. A cell compares with one server that does both, greedy token by token, and
each log probability within 0.001; 99 % of the steps spend at most 1 ms of CPU time in our
connector. Afterwards neither server holds a request, a block of its KV cache or a hand-over, and
its engine has the threads and open files that it had before.

A cell counts once it was seen red with its defect (`tests/vllm_servers/defective.py`) put into the
running servers (`python -m tests.vllm_servers --defects`).

| cell | what it asserts | its defect | seen red as |
|---|---|---|---|
"""

CELLS: Final = (
    Cell("equality", "plain", "equality",
         "greedy tokens and log probabilities are those of one server; over TCP, into the blocks",
         "wrong-block"),
    Cell("both at once", "at-once", "equality",
         "the proxy asks both servers at once: blocks go while prefill computes", "block-in-part"),
    Cell("first token", "first-token", "first_token",
         "the proxy passes on the token that prefill has sampled, if it is whole text; decode "
         "loads each token of each prompt, and goes on behind it", "prompts-whole"),
    Cell("half leave", "plain", "half_leave",
         "of 120 clients half close their connection: the others are served, nothing is left",
         "end-untold"),
    Cell("prefill stopped", "suspicious", "prefill_stopped",
         "prefill stands still for 8 s while a client waits and another leaves: both servers live",
         "told-twice"),
    *(Cell(f"{one}", "defaults", "stands_still",
           f"{IN_FLIGHT} requests are in flight, and {MEANWHILE} more come: each is answered, "
           "nothing is held, both serve on",
           "gone-for-good" if f"{one}" in FEW_UNDER_WAY else "silence-as-death",
           given=(one,)) for one in STANDSTILLS),
    Cell("kill -9 prefill", "kill", "kill_prefill",
         "before the read and in mid-write, with 60 in flight: each request ends within 10 s; "
         "decode serves with the next prefill", "loss-unnoticed"),
    Cell("kill -9 decode", "kill", "kill_decode",
         "before the read and in mid-write, with 60 in flight: each request ends, and prefill has "
         "its blocks back, within 10 s; prefill serves with the next decode",
         "loss-unnoticed"),
    Cell("params cut", "plain", "params_cut",
         "a proxy that cuts what prefill has answered, or has another version or a room that never "
         "was: an error, at once",
         "params-unread"),
    Cell("another prompt", "plain", "other_prompt",
         "decode is asked for a prompt with what prefill has answered for another of its length: "
         "an error at once, both servers say both values, and a later request without params is "
         "answered right",
         "prompts-uncompared", quick=True),
    Cell("another adapter", "adapters", "other_adapter",
         "decode is asked for one LoRA adapter with what prefill has answered for another of the "
         "same prompt: an error at once, both servers say both names, and the next request of each "
         "adapter is answered right",
         "prompts-uncompared"),
    Cell("one room for several", "plain", "shared_room",
         "a request of three samples (`n`) is answered right; one of two prompts, of which the "
         "proxy passes one offer on, ends with an error at once", "room-waits",
         quick=True),
    Cell("kill -9 one of two decodes", "kept", "kill_one_decode",
         "with 50 in flight, and a proxy that asks the other one then: each is answered right, and "
         "prefill computes no prompt twice", "nothing-kept"),
    Cell("hedged", "kept", "hedged",
         "two decode servers are asked for each request at once, and one of them again afterwards: "
         "each answer is right, and prefill computes no prompt twice", "nothing-kept", quick=True),
    Cell("late read", "late", "late_read",
         "decode is asked after prefill has given the blocks to others: an error within 10 s",
         "blocks-given-early"),
    Cell("late read, recomputed", "late-recompute", "late_read",
         "the same where decode computes what it cannot load: the right tokens within 10 s",
         "blocks-given-early"),
    Cell("memory short", "short", "memory_short",
         "decode has memory for a few requests at a time: they wait, and some are computed again",
         "waiting-declined"),
    Cell("nothing grows", "plain", "nothing_grows",
         "after 300 requests, of which some leave, the engines have the threads and the open files "
         "that they had after 30", "files-kept"),
    Cell("staging memory", "landing", "equality", "over TCP, through staging memory",
         "staging-shifted"),
    Cell("shared memory", "shm", "equality", "through shared memory", "staging-shifted"),
    Cell("plug-in", "plug-in", "plugged_in",
         "vLLM finds the connector by its name, without the path of a module", PLUGIN_OFF),
    Cell("TP 2 -> 1", "tp-2-1", "equality_short", "two tensor-parallel ranks into one",
         "heads-swapped"),
    Cell("TP 1 -> 2", "tp-1-2", "equality_short", "one rank into two", "heads-swapped"),
    Cell("TP 2 -> 2", "tp-2-2", "equality_short", "two ranks into two", "partners-swapped"),
    Cell("Mamba", "hybrid", "equality_short",
         "every second layer has a Mamba 2 state: prefill computes all tokens of a prompt but the "
         "last, which decode takes into the state", "state-moved-on"),
    Cell("DP 2 -> 2", "dp", "data_parallel",
         "two data-parallel engines on each side, each of which takes itself for rank 0, with the "
         "ports of one server", "ranks-alike"),
    Cell("keys of members", "members", "equality_short",
         "prefill and decode each have keys of their own, as members of a cluster", "seals-apart"),
    Cell("compose", "plain", "deployed",
         "the commands of `deploy/compose/vllm.yaml` as processes of one machine, with its keys, "
         "settings, health checks and proxy: decode loads each token of each prompt",
         "seals-apart"),
    *(Cell(name, name, "routed",
           "the router from pip takes completions, chats and streams: decode loads "
           "each token of each prompt, and answers as it does alone", "params-unsent")
      for name in (VLLM_ROUTER, SMG)),
    Cell("model differs", "decode-model", "differs",
         "decode with a model of the same shape and another name is refused with both names",
         "misfit-unnoticed"),
    Cell("block size differs", "decode-block-64", "differs",
         "decode with blocks of 64 tokens is refused with both sizes", "misfit-computed"),
    Cell("dtype differs", "decode-bfloat16", "differs",
         "decode with a KV cache of bfloat16 is refused with both dtypes", "misfit-computed"),
    Cell("NixlConnector", "nixl-long-lease", "equality",
         "vLLM's own connector, the control, with a lease of 300 s",
         "nixl-wrong-block"),
)
RECORD: Final = Record(
    CELLS, Path("docs/vllm-servers.md"), Path(__file__).with_name("seen_red.json"), HEAD, "",
    lambda defect: f"`{defect}`")
