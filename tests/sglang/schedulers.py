"""SGLang's scheduler of a server, without a model: its own code makes its queues.

`init_disaggregation` makes the queues, the metadata rows and their allocator, in SGLang's runtime
of that server, over a pool, an allocator and a prefix cache of SGLang's classes.

What is not SGLang's here, and in no other module of its queues:
* `Scheduler.__init__` does not run: it loads a model, binds sockets and joins other ranks. What it
  would set is set here, with its classes. Real servers run it (tests/servers).
* `tp_worker` holds the model. What is read of it is a few numbers, and the adapters of requests.
* A rank that is alone is its own group, of gloo: SGLang joins ranks by the network.
* `ToTokenizer` is the socket to the process that answers clients: it keeps what it is told.
* The manager is one of ours, as the test makes it: SGLang's code would open a node with it, in a
  process that has one node (tests/sglang/kvargs.py has the managers that it makes).

Other modules have stand-ins for what needs a GPU or a process of its own: a batch whose result is
under way (test_answers), streams (test_devices), a host pool, which SGLang registers with CUDA
(test_host_receive), the front, which has a tokenizer and sockets (test_statuses), and prefill's
HTTP port (test_recompute).
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.constrained.grammar_manager import GrammarManager
from sglang.srt.disaggregation.decode import DecodePreallocQueue, DecodeReqToTokenPool
from sglang.srt.disaggregation.prefill import PrefillBootstrapQueue
from sglang.srt.dllm.mixin.scheduler import DllmManager
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.mem_cache.unified_cache.components import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.runtime_context import SpawnRanks, create_context, get_parallel, use_context
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from examples.sglang_handoff.load import HEADS
from examples.sglang_handoff.pools import CONFIG
from pdproto.sglang.plugin import NAME, plugin

LAYERS: Final = 2
REQUESTS: Final = 4  # that run at a time


def prefill_manager(node: Any, **told: Any) -> Any:
    """As much of PdprotoKVManager as a sender uses."""
    return SimpleNamespace(**{
        "prefill": node, "is_dummy_cp_rank": False, "statuses": None, "dp_rank": 0,
        "named_rank": None, "prompt": None, "request_id": "", **told})


class Stages:
    """The stages of a pipeline in one process, the first one first, for SGLang's PPConsensusStore.
    """

    def __init__(self) -> None:
        self._told: Any = None

    def broadcast_object(self, told: Any, src: int) -> Any:
        assert src == 0
        self._told = self._told if told is None else told
        return self._told


class ToTokenizer:
    """What the process that answers clients is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def send_output(self, told: Any, *_: Any) -> None:
        self.told.append(told)


class Bare(Scheduler):  # type: ignore[misc]  # SGLang has no types
    """See above. manager: None for the one that SGLang's code makes. tokens: for which the KV cache
    has room.
    """

    def __init__(self, arguments: ServerArgs, manager: Any, tokens: int) -> None:
        side = arguments.disaggregation_mode
        self.server_args, self.model_config = arguments, ModelConfig.from_server_args(arguments)
        self.spec_algorithm = SpeculativeAlgorithm.from_string(None)
        self.tp_worker: Any = SimpleNamespace(is_hybrid_swa=False, model_runner=SimpleNamespace(
            effective_logical_max_total_num_tokens=tokens, kv_cache_dtype_str="bfloat16",
            lora_manager=SimpleNamespace(lora_refs={})))
        self.max_total_num_tokens, self.max_running_requests = tokens, REQUESTS
        self._own_memory(side, tokens)
        self._start()
        with pytest.MonkeyPatch.context() as patched:
            for queue in (PrefillBootstrapQueue, DecodePreallocQueue):
                if manager is not None:
                    patched.setattr(queue, "_init_kv_manager", lambda _: manager)
            self.init_disaggregation()
        self.init_output_streamer()

    def _own_memory(self, side: str, tokens: int) -> None:
        kv = MHATokenToKVPool(tokens, 1, torch.bfloat16, HEADS, 8, LAYERS, device="cpu",
                              enable_memory_saver=False)
        self.token_to_kv_pool_allocator = TokenToKVPoolAllocator(
            tokens, torch.bfloat16, "cpu", kv, need_sort=False)
        usual: dict[str, Any] = {"size": REQUESTS, "max_context_len": tokens, "device": "cpu",
                                 "enable_memory_saver": False}
        self.req_to_token_pool = (DecodeReqToTokenPool(pre_alloc_size=REQUESTS, **usual)
                                  if side == "decode" else ReqToTokenPool(**usual))
        self.tree_cache = UnifiedRadixCache(CacheInitParams(
            disable=True, req_to_token_pool=self.req_to_token_pool, page_size=1,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            tree_components=(ComponentType.FULL,)))

    def _start(self) -> None:
        """As `__init__` of SGLang's class does for a rank that is alone."""
        self.kv_shard_widening, self.random_seed = 1, 0
        self.enable_priority_scheduling = self.enable_lora = self.enable_hierarchical_cache = False
        self.enable_decode_hicache = self.enable_hisparse = self.enable_unified_memory = False
        self.enable_overlap = self.enable_lmcache = self.enable_hicache_storage = False
        self.draft_worker = self.scheduler_stage_metrics = self.rust_server = None
        self.chunked_req = self.last_batch = self.dllm_config = self.future_map = None
        self.decode_offload_manager = None
        self.dllm_manager = DllmManager(None)
        self.enable_continuous_input_polling = False
        self.is_generation, self.max_req_len, self._engine_paused = True, 64, False
        self.waiting_queue: list[Req] = []
        self.running_batch = ScheduleBatch(reqs=[])
        self.ipc_channels = SimpleNamespace(send_to_detokenizer=ToTokenizer())
        self.dp_tp_group = self.pp_group = get_parallel().attn_tp_group
        self.dp_tp_cpu_group = self.attn_tp_cpu_group = self.attn_cp_cpu_group = (
            self.dp_tp_group.cpu_group)
        self.init_metrics_collector()
        self.init_metrics_reporter()
        self.grammar_manager = GrammarManager(self)
        self.init_beam_coordinator()


@contextmanager
def runtime(side: str, folder: Path) -> Iterator[ServerArgs]:
    """SGLang's runtime of this process, as it is in a server of one rank."""
    plugin()
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": LAYERS}))
    arguments = ServerArgs(
        model_path=str(folder), device="cpu", page_size=1, skip_tokenizer_init=True,
        disaggregation_mode=side, disaggregation_transfer_backend=NAME,
        num_reserved_decode_tokens=1)
    with _alone() as group, use_context(create_context(
            arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))):
        alone = SimpleNamespace(cpu_group=group, world_size=1, rank_in_group=0, first_rank=0,
                                is_first_rank=True, is_last_rank=True)
        get_parallel().override_permanently(**dict.fromkeys(
            ("attn_tp_group", "attn_cp_group", "tp_group", "pp_group", "world_group"), alone))
        yield arguments


@contextmanager
def _alone() -> Iterator[Any]:
    """The group of this process alone: of both servers, if it has both."""
    is_first = not dist.is_initialized()
    if is_first:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield dist.group.WORLD
    finally:
        if is_first:
            dist.destroy_process_group()


def scheduler_of(
    closing: ExitStack, side: str, manager: Any, folder: Path, tokens: int = 1024
) -> Any:
    """The scheduler of a server. SGLang's runtime is that of the server until `closing` ends."""
    return Bare(closing.enter_context(runtime(side, folder)), manager, tokens)
