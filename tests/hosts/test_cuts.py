"""A cut loses what one host sends, in that direction only, until it heals."""

import socket
import time

import pytest

from tests.hosts.cuts import nft_works, severable
from tests.hosts.namespaces import Host

PORT = 4_711


def arrives(pair: tuple[Host, Host], sender: int) -> bool:
    """Whether a datagram of this host comes to the other one."""
    source, target = pair[sender], pair[1 - sender]

    def listen() -> socket.socket:
        receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiving.bind((target.v4, PORT))
        receiving.settimeout(0.3)
        return receiving

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            sending.sendto(b"datagram", (target.v4, PORT))

    with target.call(listen) as receiving:
        source.call(send)
        try:
            return receiving.recv(64) == b"datagram"
        except TimeoutError:
            return False


def come_up(pair: tuple[Host, Host]) -> None:
    """The first datagrams are lost while the hosts look for each other."""
    end = time.monotonic() + 10.0
    while not (arrives(pair, 0) and arrives(pair, 1)):
        assert time.monotonic() < end


@pytest.mark.parametrize("by_nft", [True, False], ids=["nft", "wire"])
@pytest.mark.parametrize("silent", [0, 1])
def test_a_cut_is_of_one_direction_and_heals(silent: int, by_nft: bool) -> None:
    if by_nft and not nft_works():
        pytest.skip("two hosts: there is no nft here that works (Debian: nftables)")
    with severable(by_nft=by_nft) as (pair, cut):
        come_up(pair)
        cut({silent})
        assert not arrives(pair, silent)
        assert arrives(pair, 1 - silent)
        cut(())
        assert arrives(pair, silent)
