"""The bootstrap server that SGLang's prefill server starts: pdproto's registry."""

from sglang.srt.disaggregation.base.conn import BaseKVBootstrapServer

from pdproto.net.registry_app import RegistryServer


class PdprotoKVBootstrapServer(BaseKVBootstrapServer):
    """Serves from construction on, in a thread of its own, until `close`."""

    def __init__(self, host: str, port: int) -> None:
        self.server = RegistryServer(host=host, port=port)
        self.server.start()

    def close(self) -> None:
        self.server.stop()
