"""A process forks while it has nodes open: the child neither hangs nor disturbs its parent."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from itertools import product

import pytest

from pdproto.net.threads import close_sockets
from pdproto.node.link import place_of
from pdproto.spec.handoff.poll import KVPoll
from tests.node.processes import victim
from tests.tiers import sampled
from tests.transport.inherited import DEEDS, forking_source
from tests.transport.victim import PAGES, pools, sink
from tests.waiting import PATIENCE_S, until

TOLD = "was opened in another process (PARENT): open one in this process"
SAID = {"use": [*(f"child: node {name} {TOLD}" for name in "ppdddppdd")]}


@pytest.mark.parametrize(("engine", "deed"), sampled(
    [pytest.param(*both) for both in product(("shm", "tcp"), DEEDS)], 4, "children"))
def test_a_forked_child_ends_and_its_parent_goes_on(engine: str, deed: str) -> None:
    """Seen red without `leave_to_parent`: "close" is ended by the alarm (-14), "use" has no error.
    """
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.transport.inherited", engine, deed],
        capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout.splitlines() == [
        "SUCCESS SUCCESS True", *SAID.get(deed, []), "child ended: 0", "SUCCESS SUCCESS True",
        "turn errors: [0, 0]"], ran.stderr
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_child_does_not_hide_the_death_of_its_parent() -> None:
    """Decode hears of the death although silence tells it nothing (600 s), and the port is free.

    Seen red without the sockets closed in the child: the hand-over waits, and the port is taken.
    """
    decode = sink("tcp", pools())
    with closing(decode), victim(forking_source, "tcp") as (process, pipe):
        endpoint, pid = pipe.recv()
        receiver = decode.open(7, {"p0": endpoint})
        receiver.publish(range(PAGES))
        child = pipe.recv()
        try:
            os.kill(pid, signal.SIGKILL)
            until(lambda: receiver.poll() is KVPoll.FAILED)
            process.wait(PATIENCE_S)
            with socket.create_server(place_of(endpoint)):
                os.kill(child, 0)  # it lives
        finally:
            os.kill(child, signal.SIGKILL)


def test_to_close_sockets_leaves_no_file_open() -> None:
    """Seen red with a copy of each file that is no socket: in a child of many nodes none was left.
    """
    with open(os.devnull, "rb"), socket.create_server(("127.0.0.1", 0)) as listener:
        before = len(os.listdir("/proc/self/fd"))
        close_sockets(("/nowhere",))
        assert len(os.listdir("/proc/self/fd")) == before
        port = listener.getsockname()[1]
        close_sockets((port,))
        assert len(os.listdir("/proc/self/fd")) == before - 1
        listener.detach()


CLOSED = """
import os, sys
from pdproto.registry.app import RegistryServer
from tests.transport.inherited import Pair

pair, server = Pair(sys.argv[1]), RegistryServer("127.0.0.1", 0)
server.start()
pair.hand_over(1)
pair.close()
server.stop()
pipes = [os.pipe() for _ in range(64)]  # which take the numbers of the files that were closed
child = os.fork()
if not child:
    lost = 0
    for read, write in pipes:
        try:
            lost += os.write(write, b"x") != len(os.read(read, 1))
        except OSError:
            lost += 1
    os._exit(lost)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("engine", ["tcp", "shm"])
def test_a_child_keeps_files_that_have_the_numbers_of_closed_ones(engine: str) -> None:
    """Seen red where a child closes again what its parent has closed: it loses pipes of its own."""
    ran = subprocess.run([sys.executable, "-c", CLOSED, engine], capture_output=True, text=True,
                         timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


ASKING = """
import os, sys
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from tests.registry.served import prefill

def asked_wrongly(client, times=200):
    return sum(client.look_up_all().ranks[0].address.incarnation != 1 for _ in range(times))

with RegistryServer("127.0.0.1", 0) as server:
    client = RegistryClient(server.address)
    client.register(prefill(of=1))
    asked_wrongly(client, 1)
    child = os.fork()
    wrong = asked_wrongly(client)
    if not child:
        os._exit(wrong)
    sys.stdout.write(f"{wrong} {os.waitpid(child, 0)[1]}\\n")
"""


def test_a_client_of_the_registry_connects_anew_in_a_child() -> None:
    """Seen red with one connection for both processes: they read each other's answers."""
    ran = subprocess.run([sys.executable, "-c", ASKING], capture_output=True, text=True, timeout=60,
                         check=False)
    assert (ran.stdout, ran.stderr) == ("0 0\n", "")
