"""The bootstrap server that SGLang's prefill server starts: pdproto's registry."""

from sglang.srt.disaggregation.base.conn import BaseKVBootstrapServer
from sglang.srt.environ import envs

from pdproto.registry.app import RegistryServer
from pdproto.registry.rooms import Limits


class PdprotoKVBootstrapServer(BaseKVBootstrapServer):
    """Serves the registry in a thread of its own, from its construction until `close`."""

    def __init__(self, host: str, port: int) -> None:
        interval_s = envs.SGLANG_DISAGGREGATION_BOOTSTRAP_ENTRY_CLEANUP_INTERVAL.get()
        self.server = RegistryServer(host=host, port=port, limits=Limits(room_s=2.0 * interval_s))
        self.server.start()

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()
