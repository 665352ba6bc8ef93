"""The bootstrap server that SGLang's prefill server starts: pdproto's registry."""

import os

from sglang.srt.disaggregation.base.conn import BaseKVBootstrapServer
from sglang.srt.environ import envs

from pdproto.registry.app import RegistryServer
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

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()
