"""Tiny LoRA adapters of the tiny Llama, with random weights."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

from examples.sglang_servers.tiny_models import _COMMON
from examples.vllm_servers.tiny_model import SMALL

RANK: Final = 8
QUERIES: Final = "q_proj"
VALUES: Final = "v_proj"
SCALE: Final = 0.5  # of the weights: large, so that answers differ


def adapters_of(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Write adapters of these names. Returns the flags of a server that loads them; no flag for no
    name.
    """
    if not names:
        return ()
    for seed, name in enumerate(names):
        _write(folder / name, seed)
    return ("--enable-lora", "--max-lora-rank", f"{RANK}", "--max-loras", f"{len(names)}",
            "--lora-modules", *(f"{name}={(folder / name).resolve()}" for name in names))


def _write(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": RANK,
        "target_modules": [QUERIES, VALUES], "bias": "none"}))
    save_file(dict(_weights(torch.Generator().manual_seed(seed))),
              folder / "adapter_model.safetensors")


def _weights(chance: torch.Generator) -> Iterator[tuple[str, torch.Tensor]]:
    width, head = SMALL["hidden_size"], SMALL["head_dim"]
    heads = {QUERIES: _COMMON["num_attention_heads"], VALUES: _COMMON["num_key_value_heads"]}
    for layer in range(_COMMON["num_hidden_layers"]):
        for part, count in heads.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            yield f"{name}.lora_A.weight", SCALE * torch.randn(RANK, width, generator=chance)
            yield f"{name}.lora_B.weight", SCALE * torch.randn(count * head, RANK, generator=chance)
