"""A server of vLLM, as its command line describes it. No model is loaded."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import vllm
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.cli.serve import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

from pdproto.transport.described import Described
from pdproto.vllm.configuration import model_of, refuse, settings_of
from pdproto.vllm.interface import found
from pdproto.vllm.plugin import NAME, plugin
from pdproto.vllm.versions import TESTED

log = logging.getLogger("pdproto.vllm")

BLOCK_SIZE: Final = "block size"
FLAGS: Final = {
    "model": "MODEL", "layers": "MODEL", "KV heads": "MODEL", "head size": "MODEL",
    "KV cache dtype": "--kv-cache-dtype and --dtype",
    BLOCK_SIZE: "--block-size, or page_tokens to a number that divides both,",
}


def described(arguments: Sequence[str]) -> Described:
    """The server that `vllm serve` starts with these arguments. Raises ValueError, in one line, for
    a command that names another connector or none, and SystemExit as vLLM does for wrong arguments.
    """
    plugin()
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args([*arguments])
    parsed.model = getattr(parsed, "model_tag", None) or parsed.model
    config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config()
    transfer = config.kv_transfer_config
    if transfer is None or NAME not in str(transfer):
        raise ValueError(f"the command names no {NAME}: want --kv-transfer-config "
                         f"'{{\"kv_connector\": \"{NAME}\", \"kv_role\": ...}}'")
    settings, both = settings_of(config), transfer.is_kv_producer and transfer.is_kv_consumer
    tokens = settings.page_tokens or config.cache_config.block_size
    return Described(
        "vLLM", vllm.__version__, settings, None if both else transfer.is_kv_producer,
        {**model_of(config), BLOCK_SIZE: str(tokens)}, FLAGS, _refused(config))


def _refused(config: Any) -> str:
    try:
        TESTED.check(vllm.__version__, found, log)
        refuse(config)
    except ValueError as error:
        return str(error)
    return ""
