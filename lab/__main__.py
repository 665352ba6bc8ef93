"""`python -m lab VERB ...`: the verbs of `pdproto` and those of the laboratory.

Systems of lab/peers have names here: `python -m lab check vllm-lease`.
"""

import sys
from collections.abc import Sequence

from lab.catalogue import LAB, PEERS
from pdproto.cli.main import command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, and return the exit status."""
    given = sys.argv[1:] if argv is None else argv
    return command([PEERS.get(argument, argument) for argument in given], LAB)


if __name__ == "__main__":
    sys.exit(main())
