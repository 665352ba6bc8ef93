"""Tiny models with random weights and a tokenizer of single bytes, made locally in a second.

    python -m examples.sglang_servers.tiny_models llama /tmp/tiny

Weights are drawn wide (standard deviation 0.2), so that the greedy token leads the others clearly
and a wrong KV page changes the answer.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

VOCABULARY: Final = 320
ENDS: Final = {"bos_token": "<s>", "eos_token": "</s>"}
FIRST_BYTE: Final = 2  # token 0 begins a text, token 1 ends it, then one token a byte value
CHAT_TEMPLATE: Final = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ")

_COMMON: Final[Mapping[str, Any]] = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 4096,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "tie_word_embeddings": False,
    "initializer_range": 0.2,
}


def _llama(**changes: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**{**_COMMON, **changes}))


def _latent(**changes: Any) -> Any:
    """DeepSeek V2 whose layers are all dense: multi-head latent attention, one vector a token."""
    from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

    return DeepseekV2ForCausalLM(DeepseekV2Config(**{
        **_COMMON,
        "kv_lora_rank": 32, "q_lora_rank": None, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16,
        "v_head_dim": 16, "first_k_dense_replace": 4, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 64,
        "moe_layer_freq": 1,
        # The only rotary embedding of latent attention that SGLang has on a processor.
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 1.0,
                            "original_max_position_embeddings": 4096, "mscale": 1.0,
                            "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1},
        **changes,
    }))


def _window() -> Any:
    """Mellum whose layers are all dense: every second one sees the last 32 tokens only, and
    SGLang keeps these in a pool of their own.
    """
    from transformers import MellumConfig, MellumForCausalLM

    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    return MellumForCausalLM(MellumConfig(**{
        **_COMMON,
        "head_dim": 16, "sliding_window": 32,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "mlp_layer_types": ["dense"] * 4, "num_experts": 4, "num_experts_per_tok": 2,
        "rope_parameters": {"sliding_attention": rope, "full_attention": rope},
    }))


MODELS: Final[Mapping[str, Callable[[], Any]]] = {
    "llama": _llama,
    "llama-deep": lambda: _llama(num_hidden_layers=6),
    "llama-narrow": lambda: _llama(num_key_value_heads=2),
    "latent": _latent,
    # SGLang's Triton kernels have latent vectors of 256 and 32 numbers, or of 512 and 64.
    "latent-wide": lambda: _latent(kv_lora_rank=256, qk_rope_head_dim=32),
    "window": _window,
}


def make(name: str, folder: Path, seed: int = 0) -> Path:
    """Write a model, unless it is there already. Returns the folder."""
    import torch

    if not (folder / "config.json").exists():
        _tokenizer().save_pretrained(str(folder))
        torch.manual_seed(seed)
        model = MODELS[name]().to(torch.float32)
        model.save_pretrained(str(folder))
    return folder


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1} | {
        letter: FIRST_BYTE + place for place, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHAT_TEMPLATE,
                                   **ENDS)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
