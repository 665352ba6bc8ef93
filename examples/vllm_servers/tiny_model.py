"""Tiny models with random weights, for vLLM on a processor: heads of 32 numbers or more."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from examples.sglang_servers import tiny_models
from examples.vllm_servers.serving import HYBRID, LATENT

SMALL: Final = {"hidden_size": 128, "head_dim": 32}


def make(folder: Path, **changes: Any) -> Path:
    """Write a Llama, unless it is there already, or in a folder of its name another model. changes:
    of the configuration of a Llama. Returns the folder.
    """
    if not (folder / "config.json").exists():
        tiny_models._tokenizer().save_pretrained(str(folder))
        torch.manual_seed(0)
        other = OTHERS.get(folder.name)
        model = other() if other is not None else tiny_models._llama(**{**SMALL, **changes})
        model.to(torch.float32).save_pretrained(str(folder))
    return folder


def _hybrid() -> Any:
    """A Granite 4 without experts: every second layer has a Mamba 2 state in place of attention."""
    from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

    return GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(**{
        **tiny_models._COMMON, "hidden_size": 128, "shared_intermediate_size": 128,
        "num_local_experts": 0, "num_experts_per_tok": 0, "position_embedding_type": "rope",
        "layer_types": ["mamba", "attention"] * 2, "mamba_n_heads": 8, "mamba_d_head": 32,
        "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_chunk_size": 32,
    }))


def _latent() -> Any:
    """DeepSeek V2 with latent vectors of 576 numbers: vLLM's attention on a GPU wants them so."""
    from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

    told = tiny_models._latent().config.to_dict()
    del told["head_dim"], told["qk_head_dim"]  # they follow from the others
    return DeepseekV2ForCausalLM(DeepseekV2Config(**{
        **told, "kv_lora_rank": 512, "qk_rope_head_dim": 64}))


OTHERS: Final[Mapping[str, Callable[[], Any]]] = {HYBRID: _hybrid, LATENT: _latent}
