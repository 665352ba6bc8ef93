"""One rank of a group as a process: `python -m tests.group.group_process FOLDER COUNT INDEX`.

It serves until its group ends, and then says how that went, as JSON.
"""

import json
import sys
import time
from pathlib import Path

from pdproto.group.group import Group
from pdproto.node.link import Link
from tests.group.groups import PATIENCE_S, Scheduler

LINK = Link(sign_of_life_s=0.2, silent_s=5.0)


def main(folder: str, count: str, index: str) -> None:
    endpoints = {rank: f"ipc://{Path(folder)}/{rank}" for rank in range(int(count))}
    group = Group("prefill", endpoints, me=int(index), slots=4, stop=lambda _: True, link=LINK)
    scheduler = Scheduler(group)
    # Rooms from 1000 on are never bootstrapped: they wait for the end of the group.
    scheduler.holds.update(range(1000, 2000))
    try:
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        deadline = time.monotonic() + PATIENCE_S
        while group.ended is None and time.monotonic() < deadline:
            scheduler.turn()
            time.sleep(0.001)
        gauges = {n: v for n, v in group.metrics.read().items() if n.startswith("num_") and v}
        result = {
            "ended": group.ended, "gauges": gauges,
            "applied": [(d.number, d.verdict.value, d.life.room) for d in scheduler.applied],
        }
        print(json.dumps(result), flush=True)  # noqa: T201 - the test reads it
    finally:
        group.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
