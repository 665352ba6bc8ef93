"""Registers the connector with vLLM, by vLLM's own plug-in mechanism.

The distribution declares `plugin` under the entry point group `vllm.general_plugins`, which vLLM
calls early in each of its processes. In a worker of NVIDIA Dynamo that is before its first request.
"""

import logging
import sys
from importlib import import_module
from typing import Final

NAME: Final = "PdprotoConnector"
MODULE: Final = "pdproto.vllm.connector"
DYNAMO: Final = "dynamo.vllm"

log = logging.getLogger("pdproto.vllm")


def plugin() -> None:
    """Register the connector with the vLLM of this process. A second call does nothing."""
    factory = import_module("vllm.distributed.kv_transfer.kv_connector.factory").KVConnectorFactory
    if NAME not in factory._registry:
        factory.register_connector(NAME, MODULE, NAME)
    if DYNAMO in sys.modules:
        _name_for_dynamo()


def _name_for_dynamo() -> None:
    """Have Dynamo ask prefill as it does for NixlConnector, and pass its answer on to decode: it
    refuses a connector whose name is not in its table.
    """
    try:
        protocols = import_module(f"{DYNAMO}.kv_connector_protocols")
        protocols.KV_CONNECTOR_PROTOCOLS.setdefault(NAME, protocols.NixlConnectorProtocol)
    except (ImportError, AttributeError) as error:
        log.warning("Dynamo has no table of connectors any more (%s), so it may refuse %s by its "
                    "name", error, NAME)
