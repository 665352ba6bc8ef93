"""The parts of vLLM's own code that the connector relies on."""

from typing import Final

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
from vllm.distributed.parallel_state import get_pp_group, get_tp_group, get_world_group
from vllm.utils.network_utils import get_ip
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
from vllm.v1.metrics.utils import create_metric_per_engine
from vllm.v1.request import Request, RequestStatus

from pdproto.net.releases import Interface, of_attributes, of_bases, of_calls, of_values

OF_REQUESTS: Final = ("_all_token_ids", "cache_salt", "kv_transfer_params", "lora_request",
                      "max_tokens", "mm_features", "num_prompt_tokens", "prompt_embeds",
                      "prompt_token_ids", "request_id", "status")


def found() -> Interface:
    """The interface of the vLLM that is installed."""
    return (of_bases(KVConnectorBase_V1, KVConnectorStats)
            | of_calls(KVConnectorFactory.register_connector, KVConnectorPromMetrics.__init__,
                       create_metric_per_engine, get_ip, get_pp_group, get_tp_group,
                       get_world_group)
            | of_values(FullAttentionSpec, KVCacheConfig, KVConnectorRole,
                        KVConnectorTransferResults, MLAAttentionSpec, MambaSpec, RequestStatus,
                        SlidingWindowSpec, UniformTypeKVCacheSpecs)
            | of_attributes(Request, OF_REQUESTS))
