"""The engine over Mooncake's TransferEngine: TCP, or RDMA by configuration.

    pip install 'pdproto[mooncake]'        (Debian: also apt-get install libibverbs1)

The tests of the contract pass with 0.3.13.post1 over TCP. `protocol` and `device` choose RDMA; this
project has never run it.

Properties of the library, measured with 0.3.13.post1 over TCP (tests/engine/test_mooncake.py
repeats the first two), and how this module handles them:

*   Unregistering memory is no fence. New writes are refused, and one that runs lands all its bytes.
    So a fence gives memory up (one_sided.py).
*   A write to memory that was never registered fails. Up to 0.3.10 it was reported as a success
    and lost, or ended the sink's process. So older releases are refused.
*   A success means that the sink's library has acknowledged the bytes. The digest decides.
*   A transfer cannot be cancelled. The source's buffers are kept until it has ended.
*   Over TCP a source's memory need not be registered, so it is not.
*   Closing an instance takes up to a second, because its threads sleep that long, and blocks all
    Python threads meanwhile. So does `close`.
*   It accepts any name of a protocol, and starts with `rdma` even without an adapter. This module
    checks names; the library's log says whether it found an adapter.
*   Loading it starts threads and opens a local datagram socket. Both stay until the process ends.
*   It connects to IPv6 addresses only if MC_USE_IPV6 is set, and then no longer to IPv4 ones. The
    variable is set in a process whose engine is opened at an IPv6 address.
*   It logs to standard error. MC_LOG_LEVEL=ERROR is set unless it is set already.
"""

import os
from typing import Any, Final

from pdproto.engine.contract import EngineError, Extent
from pdproto.engine.one_sided import Description, Handle, load
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.one_sided_source import OneSidedSource
from pdproto.engine.sink import CAPACITY_BYTES
from pdproto.engine.source import BYTES_MAX, WRITES_MAX
from pdproto.net.hosts import LOOPBACK, joined
from pdproto.runtime.limits import SINK_CONNECTIONS_MAX

ENGINE: Final = "mooncake"
MODULES: Final = {
    "mooncake-transfer-engine-non-cuda": "mooncake.engine",
    "mooncake-transfer-engine": "mooncake.engine",
}
COMMAND: Final = "pip install mooncake-transfer-engine-non-cuda==0.3.13.post1"
AT_LEAST: Final = (0, 3, 13)
PROTOCOLS: Final = ("tcp", "rdma")
COMPLETED: Final = 1  # of transfer_check_status; 0 is under way, and the others are failures
UNDER_WAY: Final = 0


def load_library() -> tuple[Any, str]:
    """The library's module and version. Raises EngineError if it is not installed."""
    os.environ.setdefault("MC_LOG_LEVEL", "ERROR")
    return load(MODULES, engine=ENGINE, command=COMMAND, at_least=AT_LEAST)


class MooncakeSink(OneSidedSink):
    """Staging memory that sources write to with Mooncake.

    host, port: where sources ask for grants. Mooncake itself uses the same address, with a port
    that it picks. protocol: `tcp` or `rdma`, the same on both sides. device: for rdma, as Mooncake
    names it. Raises EngineError if Mooncake is not installed, or does not start.
    """

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        protocol: str = "tcp",
        device: str = "",
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
    ) -> None:
        super().__init__(
            MooncakeTransport(host, protocol, device),
            host=host,
            port=port,
            capacity_bytes=capacity_bytes,
            connections_max=connections_max,
        )


class MooncakeSource(OneSidedSource):
    """Writes to sinks with Mooncake. host: of this side; otherwise see MooncakeSink."""

    engine = ENGINE

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        protocol: str = "tcp",
        device: str = "",
        bytes_max: int = BYTES_MAX,
        writes_max: int = WRITES_MAX,
    ) -> None:
        # Over TCP the library sends from any memory.
        transport = MooncakeTransport(host, protocol, device, registers=protocol != "tcp")
        super().__init__(transport, bytes_max=bytes_max, writes_max=writes_max)


class MooncakeTransport:
    """An instance of the library; see one_sided.Transport."""

    engine: Final = ENGINE

    def __init__(self, host: str, protocol: str, device: str, *, registers: bool = True) -> None:
        if protocol not in PROTOCOLS:  # The library accepts any name, and fails at the first write.
            raise EngineError(f"Mooncake: want a protocol of {PROTOCOLS}, got {protocol!r}")
        if ":" in host:
            os.environ.setdefault("MC_USE_IPV6", "1")
        module, self.version = load_library()
        self._library: Any = module.TransferEngine()
        self._registers: Final = registers
        self._host: Final = host
        if status := self._library.initialize(host, "P2PHANDSHAKE", protocol, device):
            raise EngineError(f"Mooncake does not start on {host} with {protocol} {device}:"
                              f" its status is {status}")

    def register(self, memory: Extent) -> None:
        """See one_sided.Transport."""
        if self._registers and (
                status := self._library.register_memory(memory.address, memory.length)):
            raise EngineError(
                f"Mooncake does not register {memory.length} bytes: its status is {status}")

    def unregister(self, address: int) -> None:
        """See one_sided.Transport."""
        if self._registers:
            self._library.unregister_memory(address)

    def describe(self, _memory: Extent) -> Description:
        """See one_sided.Transport."""
        return Description(self.version, joined(self._host, self._library.get_rpc_port()))

    def expect(self, writes: int) -> None:
        """Nothing to do: threads of the library serve peers."""

    def meet(self, description: Description) -> None:
        """Nothing to do: the library asks the peer with the first write."""

    def begin(self, peer: str, source: Extent, target: int) -> Handle:
        """See one_sided.Transport."""
        transfer = self._library.transfer_submit_write(
            peer, source.address, target, source.length)
        if transfer <= 0:
            raise EngineError(f"Mooncake does not reach {peer}")
        return transfer

    def ended(self, handle: Handle) -> bool | None:
        """See one_sided.Transport."""
        status = self._library.transfer_check_status(handle)
        return None if status == UNDER_WAY else status == COMPLETED

    def close(self) -> None:
        """See one_sided.Transport."""
        self._library = None
