"""A rank whose process stands still for longer than the registry waits, and then goes on."""

import signal
import socket
import subprocess
import sys
import time
from typing import Final

from pdproto.net.hosts import LOOPBACK
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.registrar import Registrar
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Rank, Registration
from pdproto.runtime.versions import VERSION
from tests.waiting import PATIENCE_S, until

SILENT_S: Final = 1.0
SIGN_OF_LIFE_S: Final = 0.2
HERE: Final = Rank(0, 0, 0, 0)
# Registers, writes a line when it is recorded and for every refusal, and stays.
RANK: Final = """
import sys, time
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Registration
from pdproto.runtime.versions import VERSION

me = Registration(attn_tp_size=1, attn_tp_rank=0, rank_ip="10.0.0.1", rank_port=5000,
                  incarnation=7, version=VERSION)
rank = Registrar(sys.argv[1], me, sign_of_life_s=float(sys.argv[2]), retry_s=0.1,
                 on_refused=lambda why: print("refused:", why, flush=True))
rank.start()
rank.recorded.wait()
print("recorded", flush=True)
sys.stdin.read()
"""


def test_b4_a_rank_that_stood_still_comes_back_by_itself() -> None:
    """It is struck out, notices by its next sign of life, and is listed under a later number."""
    with RegistryServer(limits=Limits(silent_s=SILENT_S)) as server:
        registry, client = server.app.registry, RegistryClient(server.address)
        rank = subprocess.Popen(
            [sys.executable, "-c", RANK, server.address, str(SIGN_OF_LIFE_S)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "recorded\n"
            before = client.look_up_all().addresses()[HERE]
            rank.send_signal(signal.SIGSTOP)
            until(lambda: not registry.ready)
            rank.send_signal(signal.SIGCONT)
            took_s = until(lambda: registry.ready)
            after = client.look_up_all().addresses()[HERE]
        finally:
            rank.kill()
            said, _ = rank.communicate(timeout=PATIENCE_S)
            client.close()
    assert said == ""
    assert before.incarnation == 7 < after.incarnation
    assert (after.rank_ip, after.rank_port) == (before.rank_ip, before.rank_port)
    assert took_s < 10 * SIGN_OF_LIFE_S, "one interval, on a machine that does much else"


def test_a_rank_registers_within_an_interval_after_its_registry_can_be_reached_again() -> None:
    """However long nobody has answered it."""
    with socket.create_server((LOOPBACK, 0)) as reserved:
        port = reserved.getsockname()[1]
    me = Registration(attn_tp_size=1, attn_tp_rank=0, rank_ip="10.0.0.1", rank_port=5000,
                      incarnation=7, version=VERSION)
    rank = Registrar(f"{LOOPBACK}:{port}", me, sign_of_life_s=SIGN_OF_LIFE_S, retry_s=0.1)
    rank.start()
    try:
        time.sleep(3.5)  # waits that double would be of 3.2 s by then
        with RegistryServer(LOOPBACK, port):
            assert until(rank.recorded.is_set) < 5 * SIGN_OF_LIFE_S
    finally:
        rank.stop(goodbye=False)
