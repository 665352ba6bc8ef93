"""A process that is frozen, has hardly a processor, or holds Python's interpreter: nobody fails.

Each stands still for longer than its peer waits for it. Seen red with clocks of decode that go on
(`Suspicions.stood` that returns 0): frozen and holding fail, of transfer_timeout.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import psutil
import pytest

from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import PrefillNode
from tests.node.data_paths import Fabric, SourceDataPath, cluster, polls, published
from tests.node.processes import victim
from tests.skips import NO_CGROUP
from tests.waiting import PATIENCE_S, until

LINK: Final = Link(sign_of_life_s=0.1, silent_s=0.4, absent_s=600.0)
WAITS: Final = {"transfer_timeout": 6.0, "no_bytes": 0.1}
STANDS_S: Final = 8.0
ROOMS: Final = range(20)
CGROUPS: Final = Path("/sys/fs/cgroup")  # version 1
HOW: Final = ("holds the interpreter", "is frozen", "has 100 ms of processor in a second")


def prefill_process(pipe: Connection) -> None:
    """A prefill rank, which sends nothing. It opens the rooms that it is told, or holds the
    interpreter for so long.
    """
    node = PrefillNode("p0", SourceDataPath("p0", Fabric()), link=LINK)
    pipe.send(node.endpoint)
    senders = []
    while True:
        match pipe.recv():
            case float(seconds):
                ctypes.PyDLL(None).usleep(int(seconds * 1e6))
            case rooms:
                senders += [node.open(room) for room in rooms]
                until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        pipe.send([sender.failure for sender in senders])


@contextmanager
def held_in(kind: str, files: dict[str, str], process: psutil.Process) -> Iterator[Path]:
    """The process in a cgroup of its own, with these values."""
    group = CGROUPS / kind / f"pdproto-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip(NO_CGROUP)
    try:
        for name, value in files.items():
            (group / name).write_text(value)
        (group / "cgroup.procs").write_text(str(process.pid))
        yield group
    finally:
        (CGROUPS / kind / "cgroup.procs").write_text(str(process.pid))
        group.rmdir()


@contextmanager
def standing(how: str, process: psutil.Process, pipe: Connection) -> Iterator[None]:
    """The process stands still while this is open, and has gone on after it."""
    if how == HOW[0]:
        pipe.send(STANDS_S)
        yield
        assert pipe.poll(PATIENCE_S)
        pipe.recv()
    elif how == HOW[1]:
        with held_in("freezer", {}, process) as group:
            (group / "freezer.state").write_text("FROZEN")
            until(lambda: (group / "freezer.state").read_text() == "FROZEN\n")
            try:
                yield
            finally:
                (group / "freezer.state").write_text("THAWED")
    else:
        quota = {"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "100000"}
        with held_in("cpu", quota, process):
            yield


def serves(pipe: Connection, rooms: range, count: int) -> None:
    """Have prefill open these rooms too. None of all has failed there."""
    pipe.send(rooms)
    assert pipe.poll(PATIENCE_S)
    assert pipe.recv() == [None] * count


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_no_request_fails_while_prefill(how: str) -> None:
    with (victim(prefill_process) as (process, pipe),
          cluster(sources=0, link=LINK, waits={} if how == HOW[2] else WAITS) as nodes):
        (decode,), source = nodes.decodes, pipe.recv()
        is_suspected: Callable[[], bool] = lambda: decode.metrics.read()["suspected_peers"] == 1  # noqa: E731
        receivers = published([decode.open(room, {"p0": source}) for room in ROOMS])
        serves(pipe, ROOMS[:10], 10)
        with standing(how, process, pipe):
            if how == HOW[2]:
                serves(pipe, ROOMS[10:], 20)
            else:
                until(is_suspected)
                time.sleep(STANDS_S)
        if how != HOW[2]:
            serves(pipe, ROOMS[10:], 20)
        assert not any(one.poll() is KVPoll.FAILED for one in receivers)
        until(lambda: not is_suspected())
        assert decode.lost_peers() == ()
