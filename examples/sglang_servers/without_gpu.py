"""The names that SGLang 0.5.23 imports on a machine without a GPU, and never calls there.

torchvision: multimodal processors.
sgl_kernel: with SGLANG_USE_CPU_ENGINE=1 SGLang imports operators by name, which only processors
with AMX have. Each raises NotImplementedError if it is called.
"""

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NoReturn

from examples.sglang_handoff import without_torchvision

KERNELS: Final = ("sgl_kernel", "sgl_kernel.mamba", "sgl_kernel.kvcacheio")

ENVIRONMENT: Final = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",  # a tiny model gains nothing from more, and servers share the cores
    "MKL_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # The router sends on a connection that the server is about to close, and loses a half of its
    # request: with either backend, once in some hundred requests.
    "SGLANG_TIMEOUT_KEEP_ALIVE": "3600",
    "SGLANG_LOCAL_IP_NOSAVE": "1",
    "SGLANG_HOST_IP": "127.0.0.1",
}

# Flags of every server on such a machine.
FLAGS: Final = (
    "--device", "cpu", "--attention-backend", "torch_native", "--dtype", "float32",
    "--grammar-backend", "none", "--disable-overlap-schedule", "--skip-server-warmup",
    "--mem-fraction-static", "0.5", "--random-seed", "1",
)


class _Kernels(ModuleType):
    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> NoReturn:
            raise NotImplementedError(f"{self.__name__}.{name} is not built on this machine")

        return missing


def complete() -> None:
    """Call this when SGLang has been imported.

    It adds three parts that the attention backend torch_native lacks in 0.5.23.

    Latent attention: SGLang takes a form for prompts without a cached prefix that only other
    backends have; the absorbed form reads the cache as it is.
    DP attention: the length to which the requests of idle ranks are padded.
    Sliding windows: it writes where the window's own pool has a token, and reads where the other
    pool has it.
    """
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend as Backend
    from sglang.srt.models.deepseek_common import attention_backend_handler as handler

    handler.AttentionBackendRegistry.register("torch_native", handler._dispatch_mla_subtype)
    if not hasattr(Backend, "get_cpu_graph_seq_len_fill_value"):
        Backend.get_cpu_graph_seq_len_fill_value = lambda _: 1
    for name in ("_run_sdpa_forward_extend", "_run_sdpa_forward_decode"):
        setattr(Backend, name, _reading_the_window(getattr(Backend, name)))


def _reading_the_window(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` with the window's places in its argument req_to_token [request, token]."""
    def translated(self: Any, *given: Any, **named: Any) -> Any:
        if self.use_sliding_window_kv_pool and named.get("sliding_window_size") is not None:
            before, places, after = given[:4], given[4], given[5:]
            given = (*before, self.token_to_kv_pool.translate_loc_from_full_to_swa(places), *after)
        return run(self, *given, **named)

    return translated


def install() -> None:
    """Call this before SGLang is imported."""
    os.environ.update(ENVIRONMENT)
    without_torchvision.install()
    missing_kernels(*KERNELS)


def missing_kernels(*names: str) -> None:
    """Modules of these names, unless they are imported already. Whatever is called in them raises
    NotImplementedError.
    """
    for name in names:
        module = _Kernels(name)
        module.__path__ = []
        sys.modules.setdefault(name, module)
