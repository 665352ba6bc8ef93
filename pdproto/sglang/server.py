"""The bootstrap server that SGLang's prefill server starts: pdproto's registry."""

import os
from typing import Final

from sglang.srt.disaggregation.base.conn import BaseKVBootstrapServer
from sglang.srt.environ import envs

from pdproto.registry.app import RegistryServer
from pdproto.registry.operator_port import serve_registry_operator
from pdproto.registry.rooms import Limits
from pdproto.transport.settings import load


class PdprotoKVBootstrapServer(BaseKVBootstrapServer):
    """Serves the registry in a thread of its own, from its construction until `close`."""

    def __init__(self, host: str, port: int) -> None:
        interval_s = envs.SGLANG_DISAGGREGATION_BOOTSTRAP_ENTRY_CLEANUP_INTERVAL.get()
        settings = load(os.environ)
        self.server = RegistryServer(host=host, port=port, limits=Limits(room_s=2.0 * interval_s),
                                     keys=settings.load_keys(), insecure=settings.insecure)
        self.server.start()
        self._operator: Final = serve_registry_operator(self.server, settings)

    def close(self) -> None:
        """Stop serving."""
        if self._operator is not None:
            self._operator.stop()
        self.server.stop()
