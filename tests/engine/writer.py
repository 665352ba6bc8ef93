"""A source in a process of its own: `python -m tests.engine.writer ENGINE ADDRESS BYTE HOW`.

ADDRESS in hexadecimal. It fills the lease with BYTE and prints the outcome. HOW: `through`, or
`stopping`, which stops the process in the middle.
"""

import sys

import numpy as np

from pdproto.engine.contract import Address
from tests.engine.engines import ENGINES, write


def main() -> None:
    name, encoded, byte, how = sys.argv[1:]
    engine = ENGINES[name]
    if how == "stopping":
        engine.stop_midway()
    address = Address.decode(bytes.fromhex(encoded))
    source = engine.source()
    outcome = write(source, address, np.full(address.length, int(byte), np.uint8))
    source.close()
    print(outcome.result.name)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
