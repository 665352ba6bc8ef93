"""vLLM on a GPU without its compiled kernels, as from its Python files alone.

The wheel of vLLM for CUDA has its kernels compiled. vLLM has most of them once more, in Triton or
in torch, and takes those where it is told to (FLAGS). Here is the rest, for the models of these
tests: `install` does nothing where the compiled kernels are there.

Rule 1: a kernel that only asks whether another one can be used answers no.
Rule 2: a kernel that a model of these tests cannot do without is written in torch.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch import library

KERNELS: Final = "vllm._C_stable_libtorch"
FLASH: Final = "vllm.vllm_flash_attn"
NATIVE: Final = ["native"]
FLAGS: Final = (
    "--attention-backend", "TRITON_ATTN",
    "--ir-op-priority", json.dumps({"rms_norm": NATIVE, "fused_add_rms_norm": NATIVE}),
    # Mode 0 compiles nothing; a step of decode is one CUDA graph.
    "--compilation-config", json.dumps({
        "mode": 0, "custom_ops": ["none"], "cudagraph_mode": "FULL_DECODE_ONLY",
        "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}),
)


def install() -> bool:
    """Put the stand-ins in, before anything of vLLM is imported. Returns whether it was needed."""
    if importlib.util.find_spec(KERNELS) is not None:
        return False
    sys.modules[KERNELS] = ModuleType(KERNELS)
    for name, kernels in _KERNELS.items():
        operators = library.Library(name, "FRAGMENT")
        _OPERATORS.append(operators)
        for signature, (kernel, key) in kernels.items():
            operators.define(signature)
            operators.impl(signature.partition("(")[0], kernel, key)
    sys.modules[FLASH] = _flash()
    # vLLM asks a new process for the properties of a model's class. It would lack all of this.
    registry = importlib.import_module("vllm.model_executor.models.registry")
    vars(registry)["_run_in_subprocess"] = lambda question: question()
    return True


def _flash() -> ModuleType:
    """vLLM's package for flash attention, which it imports although it calls nothing of it."""
    package, (folder,) = ModuleType(FLASH), importlib.import_module("vllm").__path__
    package.__path__ = [str(Path(folder) / "vllm_flash_attn")]
    for name in ("compile_flash_attn_varlen_func_from_specs", "flash_attn_varlen_func",
                 "get_scheduler_metadata"):
        setattr(package, name, None)
    return package


class _Memory:
    """Pinned memory of a host, as a GPU sees it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__cuda_array_interface__: Final = tensor.numpy().__array_interface__


def _cuda_view(pinned: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(_Memory(pinned), device="cuda")


def _silu_and_mul(out: torch.Tensor, given: torch.Tensor) -> None:
    gate, up = given.chunk(2, dim=-1)
    torch.mul(torch.nn.functional.silu(gate), up, out=out)


def _strong_ref(tensor: torch.Tensor) -> torch.Tensor:
    """In place of a reference that does not keep the memory: the graphs take more of it."""
    return tensor.view_as(tensor)


def _no(_capability: int) -> bool:
    return False


def _concat_and_cache_mla(
    latent: torch.Tensor, rope: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, _dtype: str,
    _scale: torch.Tensor,
) -> None:
    """Write the vectors of tokens, those without a slot into the null block."""
    blocks, block_tokens = slots.clamp(min=0) // cache.shape[1], slots.clamp(min=0) % cache.shape[1]
    rows = torch.cat([latent, rope.squeeze(1)], dim=-1)[:len(slots)]
    cache[blocks, block_tokens] = rows.to(cache.dtype)


ANY: Final = "CompositeExplicitAutograd"
_KERNELS: Final[Mapping[str, Mapping[str, tuple[Callable[..., Any], str]]]] = {
    "_C": {
        "cutlass_scaled_mm_supports_fp8(int capability) -> bool": (_no, ANY),
        "cutlass_scaled_mm_supports_block_fp8(int capability) -> bool": (_no, ANY),
        "cutlass_scaled_mm_supports_fp4(int capability) -> bool": (_no, ANY),
        "cutlass_group_gemm_supported(int capability) -> bool": (_no, ANY),
        "get_cuda_view_from_cpu_tensor(Tensor pinned) -> Tensor": (_cuda_view, "CPU"),
        "weak_ref_tensor(Tensor tensor) -> Tensor": (_strong_ref, ANY),
        "silu_and_mul(Tensor! out, Tensor given) -> ()": (_silu_and_mul, ANY),
    },
    "_C_cache_ops": {
        "concat_and_cache_mla(Tensor latent, Tensor rope, Tensor! cache, Tensor slots, str dtype, "
        "Tensor scale) -> ()": (_concat_and_cache_mla, ANY),
    },
}
_OPERATORS: Final[list[library.Library]] = []  # they go with this object
