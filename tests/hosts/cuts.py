"""Two hosts whose link can be cut one way: the packets of a host do not come, and nobody is told.

nftables drops the packets where they arrive, on a veth pair. Where the kernel has no nf_tables, a
wire of ours carries them (wire.py).
"""

import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Final, TypeAlias

from tests.hosts.namespaces import Host, hosts
from tests.hosts.wire import Wire

Cut: TypeAlias = Callable[[Collection[int]], None]

DROP: Final = """
table inet cut {{
    chain arriving {{
        type filter hook input priority 0;
        iifname "{device}" drop
    }}
}}
"""


@contextmanager
def severable(*, by_nft: bool | None = None) -> Iterator[tuple[tuple[Host, Host], Cut]]:
    """Two hosts, and a function that cuts: it takes the places of the hosts, 0 or 1, whose packets
    do not come through from now on. by_nft: whether nftables does it (default: where it works).
    """
    if nft_works() if by_nft is None else by_nft:
        with hosts() as pair:
            yield pair, partial(_drop, pair)
        return
    wire = Wire()

    def cut(silent: Collection[int]) -> None:
        wire.cut = frozenset(silent)

    with hosts(wire.join) as pair:
        yield pair, cut


@cache
def nft_works() -> bool:
    """Whether `nft` is here, and this kernel has nf_tables in a network namespace."""
    with hosts() as pair:
        try:
            _drop(pair, (0, 1))
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


def _drop(pair: tuple[Host, Host], silent: Collection[int]) -> None:
    for place, host in enumerate(pair):
        rules = DROP.format(device=host.device) if 1 - place in silent else ""
        host.call(partial(_load, f"flush ruleset\n{rules}"))


def _load(rules: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, capture_output=True, check=True)
