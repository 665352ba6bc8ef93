"""How tiny models run under SGLang 0.5.23 on one NVIDIA GPU that several servers share.

In float32 without TF32, so that answers of two servers can be compared to 0.001, and with SGLang's
Triton attention. The kernels that a full installation compiles, or brings compiled, are switched
off or replaced by torch: a tiny model gains nothing from them (without_kernels.py).

A process that has used CUDA cannot be forked, so the one that imports SGLang once for all servers
must not: it asks the driver's management library about the GPU.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from examples.sglang_handoff import without_torchvision
from examples.sglang_servers import without_gpu, without_kernels

DEVICE: Final = "SGLANG_SERVERS_DEVICE"
NOT_INITIALIZED: Final = 3  # CUDA_ERROR_NOT_INITIALIZED
QUESTIONS_MAX: Final = 10_000  # to the management library

ENVIRONMENT: Final = {
    DEVICE: "cuda",
    **{name: without_gpu.ENVIRONMENT[name] for name in (
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE", "SGLANG_TIMEOUT_KEEP_ALIVE", "SGLANG_LOCAL_IP_NOSAVE",
        "SGLANG_HOST_IP")},
    # Full precision: in torch's products, and in those of Triton's kernels.
    "NVIDIA_TF32_OVERRIDE": "0",
    "TRITON_F32_DEFAULT": "ieee",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}
WITHOUT_KERNELS: Final = {
    "SGLANG_FORCE_FUSED_OP_BACKEND": "torch",
    "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK": "1",
    "SGLANG_CRASH_ON_JIT_COMPILE": "1",  # where torch can do it, SGLang takes torch then
    "TORCHDYNAMO_DISABLE": "1",
}

# Flags of every server.
FLAGS: Final = (
    "--device", "cuda", "--attention-backend", "triton", "--sampling-backend", "pytorch",
    "--dtype", "float32", "--grammar-backend", "none", "--skip-server-warmup",
    "--mem-fraction-static", "0.3", "--random-seed", "1",
    "--cuda-graph-max-bs-decode", "64", "--cuda-graph-backend-prefill", "disabled",
)


def install() -> None:
    """Call this before SGLang is imported."""
    os.environ.update(ENVIRONMENT)
    without_torchvision.install()
    if without_kernels.is_needed():
        os.environ.update(WITHOUT_KERNELS)
        without_kernels.install()
    _ask_the_management_library()


def complete() -> None:
    """Call this when SGLang has been imported."""
    if without_kernels.is_needed():
        without_kernels.complete()
    _leave_the_management_library()


def has_used_cuda() -> bool:
    """Whether this process has, so that its forks cannot."""
    count = ctypes.c_int()
    driver = ctypes.CDLL("libcuda.so.1")
    return bool(driver.cuDeviceGetCount(ctypes.byref(count)) != NOT_INITIALIZED)


def _leave_the_management_library() -> None:
    """A fork inherits its state, but not its files, and could not use it."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    for _ in range(QUESTIONS_MAX):
        if library.nvmlShutdown():
            return  # as often as it was started


def _ask_the_management_library() -> None:
    """For the questions that SGLang asks torch before a scheduler has chosen its GPU."""
    import torch

    cuda: Any = torch.cuda
    cuda.get_device_name = _unless_used(cuda.get_device_name, lambda: _told()[0])
    cuda.get_device_capability = _unless_used(cuda.get_device_capability, lambda: _told()[1])
    cuda.current_device = _unless_used(cuda.current_device, lambda: 0)
    cuda.mem_get_info = _unless_used(cuda.mem_get_info, _memory)


def _unless_used(ask: Callable[..., Any], answer: Callable[[], Any]) -> Callable[..., Any]:
    """`ask` in a process that has used CUDA, `answer` in another one."""
    import torch

    return lambda *given, **named: (
        ask(*given, **named) if torch.cuda.is_initialized() else answer())  # type: ignore[no-untyped-call]


def _memory() -> tuple[int, int]:
    """Free and all bytes of the first GPU."""
    library, gpu = _first_gpu()
    told = library.nvmlDeviceGetMemoryInfo(gpu)
    return int(told.free), int(told.total)


@cache
def _told() -> tuple[str, tuple[int, int]]:
    """Name and compute capability of the first GPU."""
    library, gpu = _first_gpu()
    major, minor = library.nvmlDeviceGetCudaComputeCapability(gpu)
    return str(library.nvmlDeviceGetName(gpu)), (major, minor)


def _first_gpu() -> tuple[Any, Any]:
    """The management library, started, and its name for the first GPU."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
