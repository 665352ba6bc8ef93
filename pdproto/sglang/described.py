"""A server of SGLang, as its command line describes it. No model is loaded."""

import logging
import os
from collections.abc import Sequence
from typing import Any, Final

import sglang
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.environ import envs
from sglang.srt.server_args import prepare_server_args
from sglang.srt.utils.network import get_local_ip_auto

from pdproto.sglang import settings
from pdproto.sglang.interface import found
from pdproto.sglang.plugin import NAME, plugin
from pdproto.sglang.versions import TESTED
from pdproto.transport.described import Described
from pdproto.transport.settings import load

log = logging.getLogger("pdproto.sglang")

PREFILL: Final = "prefill"
PAGE_SIZE: Final = "page size"
FLAGS: Final = {
    "layers": "--model-path", "KV heads": "--model-path", "head size": "--model-path",
    "KV cache dtype": "--kv-cache-dtype and --dtype",
    PAGE_SIZE: "--page-size, or PDPROTO_PAGE_TOKENS to a number that divides both,",
}


def described(arguments: Sequence[str]) -> Described:
    """The server that `sglang.launch_server` starts with these arguments. Raises ValueError, in one
    line, for another backend, and SystemExit as SGLang does for wrong arguments.
    """
    plugin()
    server = prepare_server_args([*arguments])
    if server.disaggregation_transfer_backend != NAME:
        raise ValueError(f"--disaggregation-transfer-backend is "
                         f"{server.disaggregation_transfer_backend}: want {NAME}")
    model = ModelConfig.from_server_args(server)
    ours = load(os.environ, defaults=settings.defaults(
        _environment, lambda name: bool(getattr(envs, name).is_set()), get_local_ip_auto()))
    dtype = str(server.kv_cache_dtype)
    layout = {
        "layers": model.num_hidden_layers, "KV heads": model.get_total_num_kv_heads(),
        "head size": model.head_dim,
        "KV cache dtype": f"auto ({model.dtype})" if dtype == "auto" else dtype,
        PAGE_SIZE: ours.page_tokens or server.page_size or "SGLang's default",
    }
    return Described(
        "SGLang", sglang.__version__, ours, _is_prefill(server.disaggregation_mode),
        {name: str(value) for name, value in layout.items()}, FLAGS, _refused(server))


def _is_prefill(mode: str) -> bool | None:
    return None if mode == "null" else mode == PREFILL


def _refused(server: Any) -> str:
    try:
        TESTED.check(sglang.__version__, found, log)
    except ValueError as error:
        return str(error)
    if server.disaggregation_mode == "null":
        return "--disaggregation-mode is null: want prefill or decode"
    return settings.refusal(_environment, lambda name: getattr(server, name)) or ""


def _environment(name: str) -> Any:
    return getattr(envs, name).get()
