"""A process with a sink that is told: `python -m tests.engine.sink_process ENGINE LENGTH`.

It prints the address of a lease of LENGTH bytes, in hexadecimal, and where that is in its memory.
Then it answers each line, and ends with one that it does not know:

    fresh           clears the memory, lets the library have it, and says its description
    count BYTE      how many bytes of the lease are BYTE
    unregister      takes the memory back from the library as soon as its first byte has been
                    written to, and says what its last byte is then
"""

import sys

import numpy as np

from pdproto.engine.contract import Extent
from pdproto.engine.one_sided import Piece
from pdproto.engine.one_sided_sink import OneSidedSink
from tests.engine.engines import ENGINES
from tests.waiting import until


def main() -> None:
    name, length = sys.argv[1:]
    sink = ENGINES[name].sink(capacity_bytes=1 << 30)
    assert isinstance(sink, OneSidedSink)
    lease = sink.lease("life", "source", int(length))
    assert lease is not None
    piece = sink.leases._held[lease.number].backing
    assert isinstance(piece, Piece)
    landed = np.frombuffer(piece.memory, np.uint8)[: int(length)]
    say(lease.address.encode().hex())
    say(piece.address)
    registered = True
    sink.transport.expect(1)  # A transfer that nobody has asked for.
    for line in sys.stdin:
        match line.split():
            case ["fresh"]:
                landed.fill(0)
                if not registered:
                    sink.transport.register(Extent(piece.address, piece.bytes))
                registered = True
                say(piece.describe().hex())
            case ["count", byte]:
                say(int(np.count_nonzero(landed == int(byte))))
            case ["unregister"]:
                until(lambda: landed[0], "the first byte")
                sink.transport.unregister(piece.address)
                registered = False
                say(landed[-1])
            case _:
                break
    sink.close()


def say(what: object) -> None:
    print(what, flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
