"""Registers the connector with vLLM, by vLLM's own plug-in mechanism.

The distribution declares `plugin` under the entry point group `vllm.general_plugins`, which vLLM
calls early in each of its processes.
"""

from importlib import import_module
from typing import Final

NAME: Final = "PdprotoConnector"
MODULE: Final = "pdproto.vllm.connector"


def plugin() -> None:
    """Register the connector with the vLLM of this process. A second call does nothing."""
    factory = import_module("vllm.distributed.kv_transfer.kv_connector.factory").KVConnectorFactory
    if NAME not in factory._registry:
        factory.register_connector(NAME, MODULE, NAME)
