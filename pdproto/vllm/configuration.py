"""The parts of vLLM's configuration that the connector reads, and those that it refuses."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from vllm.utils.network_utils import get_ip
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

from pdproto.transport.settings import Settings, load
from pdproto.vllm.blocks import Group
from pdproto.vllm.layout import groups_told

EXTRA: Final = "kv_connector_extra_config"
BOOTSTRAP_S: Final = 30.0  # for how long prefill keeps blocks for a decode that has never called


def settings_of(vllm_config: Any) -> Settings:
    """The settings in `kv_connector_extra_config` and in the environment. Raises SettingsError."""
    extra = vllm_config.kv_transfer_config.kv_connector_extra_config
    defaults = {"host": get_ip(), "waits.bootstrap_timeout": BOOTSTRAP_S}
    return load(os.environ, defaults=defaults, tables={EXTRA: extra})


def refuse(vllm_config: Any) -> None:
    """Raise ValueError, which names the setting, for an unsupported configuration."""
    parallel = vllm_config.parallel_config
    refused = {
        "decode_context_parallel_size": parallel.decode_context_parallel_size,
        "prefill_context_parallel_size": parallel.prefill_context_parallel_size,
    }
    for name, value in refused.items():
        if value > 1:
            raise ValueError(f"{name} is {value}: PdprotoConnector hands over KV caches of "
                             f"context parallelism 1 only, yet")


def groups_of(cache: KVCacheConfig) -> list[Group]:
    """The groups of blocks. Raises ValueError for an unsupported kind of KV cache."""
    groups = []
    for group in cache.transfer_groups:
        spec = group.kv_cache_spec
        if isinstance(spec, UniformTypeKVCacheSpecs):
            spec = next(iter(spec.kv_cache_specs.values()))
        if isinstance(spec, SlidingWindowSpec):
            groups.append(Group(spec.block_size, spec.sliding_window))
        elif isinstance(spec, FullAttentionSpec) and not isinstance(
                spec, ChunkedLocalAttentionSpec):
            groups.append(Group(spec.block_size))
        else:
            raise ValueError(f"a KV cache of kind {type(spec).__name__}: PdprotoConnector hands "
                             f"over full attention and sliding windows only, yet")
    return groups


def layout_of(vllm_config: Any, cache: KVCacheConfig) -> Mapping[str, str]:
    """The description of this server's KV cache, which both servers compare."""
    model, caching = vllm_config.model_config, vllm_config.cache_config
    dtype = model.dtype if caching.cache_dtype == "auto" else caching.cache_dtype
    return {
        "engine": "vLLM",
        "model": Path(model.model).name,
        "layers": str(model.get_total_num_hidden_layers()),
        "KV heads": str(model.get_total_num_kv_heads()),
        "head size": str(model.get_head_size()),
        "KV cache dtype": str(dtype).removeprefix("torch."),
        "KV cache layout": str(cache.kv_cache_layout),
        "blocks": groups_told(groups_of(cache)),
    }
