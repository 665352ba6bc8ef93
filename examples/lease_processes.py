"""The tables of lease_lock.py as four processes: `python examples/lease_processes.py FOLDER`.

Two clients take the lock from a server, write once to a store, and give the lock back. Each process
writes a trace into the folder; `pdproto trace` replays them together.
"""

import multiprocessing
import sys
from pathlib import Path
from time import time_ns

from lease_lock import SYSTEM, has, issued, lent, wrote

from pdproto.drivers.addresses import Addresses, on_loopback
from pdproto.drivers.zeromq import ZeroMQ
from pdproto.runtime.process import Name, Process
from pdproto.runtime.trace_shared import SharedTrace

NAMES: tuple[Name, ...] = (("server",), ("store",), ("client", "ann"), ("client", "bob"))
PATIENCE_S = 300.0  # the others may start late, and no lease shall run out


def run(name: Name, addresses: Addresses, folder: Path) -> None:
    """One of the processes, until its part is done."""
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
                driver.serve(lambda: len(driver.machine.stored(wrote)) == 2, seconds=PATIENCE_S)
            else:
                stored = driver.machine.stored
                driver.serve(
                    lambda: len(stored(issued)) == 2 and not stored(lent), seconds=PATIENCE_S)


if __name__ == "__main__":
    addresses, folder = on_loopback(NAMES), Path(sys.argv[1])
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=run, args=(name, addresses, folder)) for name in NAMES]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    sys.exit(any(each.exitcode for each in processes))
