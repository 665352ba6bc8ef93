"""SGLang 0.5.23 on an NVIDIA GPU without its compiled packages (sglang-kernel, flashinfer).

SGLang's own switches choose torch and Triton where there is a choice (on_gpu.py). The rest is here:
the names that it imports from sgl_kernel, of which a text model calls weak_ref_tensor only, and the
kernels that it would compile with nvcc when they are first called, half a minute each.
"""

import importlib.util
import sys
from functools import cache
from typing import Any, Final

from examples.sglang_servers.without_gpu import missing_kernels

PACKAGE: Final = "sgl_kernel"
MODULES: Final = ("", ".kvcacheio", ".mamba", ".quantization", ".utils")


@cache
def is_needed() -> bool:
    """Whether the package is missing."""
    return importlib.util.find_spec(PACKAGE) is None


def install() -> None:
    """Call this before SGLang is imported, if it is needed."""
    missing_kernels(*(PACKAGE + name for name in MODULES))
    kernels: Any = sys.modules[PACKAGE]
    kernels.weak_ref_tensor = _same
    sys.modules[f"{PACKAGE}.utils"].is_arch_support_pdl = _no  # type: ignore[attr-defined]


def complete() -> None:
    """Call this when SGLang has been imported."""
    from sglang.srt.layers import dual_gemm

    dual_gemm.DualGemm._select_mode = lambda *_: None  # it is for 16 bits, and imports CUTLASS


def _same(tensor: Any) -> Any:
    """Instead of a second tensor that does not keep the memory: a graph keeps more of it."""
    return tensor


def _no() -> bool:
    return False
