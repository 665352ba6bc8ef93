"""One side of `cuda-ipc`, in a process of its own: `sink`, or `source` and the address of a lease.
"""

import logging
import sys

from pdproto.engine.contract import Address
from tests.engine.engines import finished
from tests.engine.played import SharedPlayedSink, SharedPlayedSource


def sink() -> None:
    """Print the address of a lease, and stay until the input ends."""
    opened = SharedPlayedSink()
    lease = opened.lease("life", "source", 4_096)
    assert lease is not None
    print(lease.address.encode().hex(), flush=True)  # noqa: T201
    sys.stdin.read()
    opened.close()


def source(address: str) -> None:
    """Print the reason why a write there ends."""
    opened = SharedPlayedSource()
    opened.post(Address.decode(bytes.fromhex(address)), 0, (bytes(4_096),))
    print(finished(opened)[0].reason, flush=True)  # noqa: T201
    opened.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    sink() if sys.argv[1] == "sink" else source(sys.argv[2])
