"""The parts of vLLM's configuration that the connector reads, and those that it refuses."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from vllm.utils.network_utils import get_ip
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

from pdproto.transport.settings import Settings, load
from pdproto.vllm.blocks import LayerGroup, in_parts
from pdproto.vllm.layout import BLOCKS, groups_told

EXTRA: Final = "kv_connector_extra_config"
# A request keeps the blocks of all tokens of its prompt.
WHOLE: Final = FullAttentionSpec, MLAAttentionSpec, RSWASpec
WINDOWS: Final = SlidingWindowSpec, SlidingWindowMLASpec
KINDS: Final = *WHOLE, *WINDOWS, ChunkedLocalAttentionSpec, MambaSpec
STATES: Final = "none", "align"  # vLLM's modes, without and with prefix caching
CPU: Final = "cpu"
KEEP_S: Final = 5.0  # for how long prefill keeps blocks for a further decode request of a room


def settings_of(vllm_config: Any) -> Settings:
    """The settings in `kv_connector_extra_config` and in the environment. Raises SettingsError."""
    extra = vllm_config.kv_transfer_config.kv_connector_extra_config
    defaults = {"host": get_ip(), "waits.keep": KEEP_S}
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
    if vllm_config.model_config.enable_sleep_mode:
        raise ValueError("enable_sleep_mode: sleep would unmap a KV cache that peers write to and "
                         "read: leave --enable-sleep-mode out")
    stages, device = parallel.pipeline_parallel_size, vllm_config.device_config.device_type
    if stages > 1 and device == CPU:
        raise ValueError(f"pipeline_parallel_size is {stages} on a {CPU}: there vLLM's own engine "
                         f"ends at the first request, with any connector or none: want 1")


def groups_of(cache: KVCacheConfig, page_tokens: int = 0) -> list[LayerGroup]:
    """The groups of blocks, or of their parts of so many tokens (see Settings).

    Raises ValueError for an unsupported kind of KV cache, and for blocks without such parts.
    """
    groups = [_group(group.kv_cache_spec) for group in cache.transfer_groups]
    return in_parts(groups, page_tokens) if page_tokens else groups


def _group(spec: Any) -> LayerGroup:
    """A kind that is derived from a supported one may keep other blocks, or keep them otherwise. So
    the kind itself is compared.
    """
    kind = type(spec)
    if kind is UniformTypeKVCacheSpecs:
        groups = {_group(layer) for layer in spec.kv_cache_specs.values()}
        if len(groups) > 1:
            kinds = " and ".join(sorted(map(str, groups)))
            raise ValueError(f"one group of layers with blocks of {kinds}: PdprotoConnector wants "
                             f"blocks of one kind in a group")
        return groups.pop()
    if kind in WINDOWS:
        return _window(spec)
    if kind is ChunkedLocalAttentionSpec:
        return LayerGroup(spec.block_size, chunk=spec.attention_chunk_size)
    if kind in WHOLE:
        return LayerGroup(spec.block_size)
    if kind is MambaSpec:
        return _states(spec)
    raise ValueError(f"a KV cache of kind {kind.__name__}: PdprotoConnector hands over "
                     f"{', '.join(one.__name__ for one in KINDS)} only, yet")


def _window(spec: SlidingWindowSpec) -> LayerGroup:
    """A window. After a load vLLM computes one that it replays (DeepSeek V4.1) anew, from what it
    does not keep.
    """
    if spec.prefix_replay_tokens:
        raise ValueError(f"{type(spec).__name__} with bounded_replay: vLLM computes "
                         f"{spec.prefix_replay_tokens} tokens again behind each load, and "
                         f"PdprotoConnector does not hand such a KV cache over yet")
    return LayerGroup(spec.block_size, spec.sliding_window)


def _states(spec: MambaSpec) -> LayerGroup:
    """A group of which the state after all tokens so far is handed over, and no other one."""
    if spec.mamba_cache_mode not in STATES:
        raise ValueError(f"mamba_cache_mode is {spec.mamba_cache_mode}: PdprotoConnector hands "
                         f"over states of modes {' and '.join(STATES)} only: set "
                         f"--no-enable-prefix-caching")
    parts = zip(spec.dtypes, spec.shapes, strict=True)
    return LayerGroup(spec.block_size, state=" and ".join(
        f"{str(dtype).removeprefix('torch.')} {' x '.join(map(str, shape))}"
        for dtype, shape in parts))


def layout_of(
    vllm_config: Any, cache: KVCacheConfig, groups: Sequence[LayerGroup]
) -> Mapping[str, str]:
    """The description of this server's KV cache, which both servers compare."""
    return {**model_of(vllm_config), "KV cache layout": str(cache.kv_cache_layout),
            BLOCKS: groups_told(groups)}


def model_of(vllm_config: Any) -> Mapping[str, str]:
    """The part of it that is known before a model is loaded."""
    model, caching = vllm_config.model_config, vllm_config.cache_config
    dtype = model.dtype if caching.cache_dtype == "auto" else caching.cache_dtype
    return {
        "engine": "vLLM",
        "model": Path(model.model).name,
        "layers": str(model.get_total_num_hidden_layers()),
        "KV heads": str(model.get_total_num_kv_heads()),
        "head size": str(model.get_head_size()),
        "KV cache dtype": str(dtype).removeprefix("torch."),
    }
