"""The parts of vLLM's own code that the connector relies on."""

from collections.abc import Mapping
from typing import Any, Final

from vllm.config import CacheConfig, KVTransferConfig, ModelConfig, ParallelConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    KVConnectorTransferResults,
)
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.distributed.parallel_state import get_pp_group, get_tp_group
from vllm.utils.network_utils import get_ip
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    MLAAttentionSpec,
    RSWASpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
from vllm.v1.metrics.utils import create_metric_per_engine
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request, RequestStatus

from pdproto.net.releases import Interface, of_attributes, of_bases, of_calls, of_values

READ: Final[Mapping[Any, tuple[str, ...]]] = {  # names, by vLLM's class, that ours reads or calls
    BlockPool: ("blocks", "free_blocks", "touch"),
    CacheConfig: ("cache_dtype", "enable_prefix_caching"),
    CachedRequestData: ("new_block_ids", "num_computed_tokens", "req_ids", "resumed_req_ids"),
    EngineCore: ("preprocess_add_request", "scheduler"),
    KVCacheConfig: ("transfer_group_ids", "transfer_groups"),
    KVConnectorFactory: ("register_connector",),
    KVConnectorOutput: ("finished_sending", "kv_connector_worker_meta"),
    KVTransferConfig: ("is_kv_consumer", "is_kv_producer", "kv_connector_extra_config"),
    ModelConfig: ("dtype", "get_head_size", "get_total_num_hidden_layers",
                  "get_total_num_kv_heads", "model"),
    NewRequestData: ("block_ids", "num_computed_tokens", "req_id"),
    ParallelConfig: ("data_parallel_index", "decode_context_parallel_size",
                     "pipeline_parallel_size", "prefill_context_parallel_size"),
    Request: ("_all_token_ids", "cache_salt", "kv_transfer_params", "lora_request", "max_tokens",
              "mm_features", "num_prompt_tokens", "prompt_embeds", "prompt_token_ids", "request_id",
              "resumable", "status"),
    Scheduler: ("get_kv_connector",),
    SchedulerOutput: ("has_sync_kv_loads", "num_scheduled_tokens", "scheduled_cached_reqs",
                      "scheduled_new_reqs"),
}


def found() -> Interface:
    """The interface of the vLLM that is installed."""
    return (of_bases(KVConnectorBase_V1, KVConnectorStats)
            | of_calls(KVConnectorPromMetrics.__init__, create_metric_per_engine, get_ip,
                       get_pp_group, get_tp_group)
            | of_values(ChunkedLocalAttentionSpec, FullAttentionSpec, KVCacheConfig,
                        KVConnectorRole, KVConnectorTransferResults, MLAAttentionSpec, MambaSpec,
                        RSWASpec, RequestStatus, SlidingWindowMLASpec, SlidingWindowSpec,
                        UniformTypeKVCacheSpecs)
            | frozenset().union(*(of_attributes(owner, names) for owner, names in READ.items())))
