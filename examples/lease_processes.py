"""The tables of lease_lock.py as four processes: `python examples/lease_processes.py FOLDER`.

Two clients take the lock from a server, write once to a store, and give the lock back. Each process
writes a trace into the folder; `pdproto trace` replays them together.
"""

import multiprocessing
import sys
from multiprocessing.synchronize import Event
from pathlib import Path
from time import time_ns

from lease_lock import SYSTEM, has, issued, lent

from pdproto.drivers.addresses import Addresses, on_loopback
from pdproto.drivers.zeromq import ZeroMQ
from pdproto.runtime.process import Name, Process
from pdproto.runtime.trace_shared import SharedTrace

NAMES: tuple[Name, ...] = (("server",), ("store",), ("client", "ann"), ("client", "bob"))
PATIENCE_S = 300.0  # the others may start late, and no lease shall run out


def run(name: Name, addresses: Addresses, folder: Path, all_sent: Event) -> None:
    """One of the processes, until its part is done. all_sent: the clients have ended.

    The store takes two writes or one: that of the first lease may come behind that of the second.
    """
    with (folder / f"{'-'.join(map(str, name))}.jsonl").open("wb", buffering=0) as file:
        process = Process(
            SYSTEM, *map(str, name), among=NAMES, trace=SharedTrace(str(name[-1]), file),
            waits={"lease_over": PATIENCE_S}, choose={"lend": lambda: {"t": time_ns()}},
        )  # fmt: skip
        with ZeroMQ(process, addresses, linger_s=PATIENCE_S) as driver:
            if name[0] == "client":
                driver.call("lock")
                driver.serve(lambda: bool(driver.machine.stored(has)), seconds=PATIENCE_S)
                driver.call("write")
                driver.call("unlock")
            elif name[0] == "store":
                while not all_sent.is_set():
                    driver.serve(seconds=0.1)
                driver.serve(seconds=1.0)
            else:
                stored = driver.machine.stored
                driver.serve(
                    lambda: len(stored(issued)) == 2 and not stored(lent), seconds=PATIENCE_S)


if __name__ == "__main__":
    addresses, folder = on_loopback(NAMES), Path(sys.argv[1])
    spawn = multiprocessing.get_context("spawn")
    all_sent = spawn.Event()
    server, store, *clients = [
        spawn.Process(target=run, args=(name, addresses, folder, all_sent)) for name in NAMES]
    for each in (server, store, *clients):
        each.start()
    for each in (*clients, server):
        each.join()
    all_sent.set()
    store.join()
    sys.exit(any(each.exitcode for each in (server, store, *clients)))
