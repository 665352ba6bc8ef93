"""A tiny Llama with random weights, as vLLM runs it on a processor: heads of 32 numbers or more."""

from pathlib import Path
from typing import Any, Final

import torch

from examples.sglang_servers import tiny_models

SMALL: Final = {"hidden_size": 128, "head_dim": 32}


def make(folder: Path, **changes: Any) -> Path:
    """Write it, unless it is there already. changes: of its configuration. Returns the folder."""
    if not (folder / "config.json").exists():
        tiny_models._tokenizer().save_pretrained(str(folder))
        torch.manual_seed(0)
        model = tiny_models._llama(**{**SMALL, **changes}).to(torch.float32)
        model.save_pretrained(str(folder))
    return folder
