"""A process that is frozen, has hardly a processor, or holds Python's interpreter: nobody fails.

Each stands still for longer than others wait for it. Seen red with clocks that go on: those of the
peer (`Suspicions.stood` that returns 0; frozen and holding fail, of transfer_timeout), and that of
the registry itself (`OwnClock.at`: it strikes the rank out).
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from pdproto.node.link import Link
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Run
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import (
    Fabric,
    SinkDataPath,
    SourceDataPath,
    cluster,
    polls,
    published,
)
from tests.node.processes import victim
from tests.registry.served import prefill
from tests.skips import NO_CGROUP
from tests.waiting import PATIENCE_S, until

LINK: Final = Link(sign_of_life_s=0.1, silent_s=0.4, absent_s=600.0)
WAITS: Final = {"bootstrap_timeout": 6.0, "transfer_timeout": 6.0, "no_bytes": 0.1}
STANDS_S: Final = 8.0
ROOMS: Final = range(20)
ALONE: Final = Run(0, 0, 0, 0, 1)
CGROUPS: Final = Path("/sys/fs/cgroup")  # version 1
HOW: Final = ("holds the interpreter", "is frozen", "has 100 ms of processor in a second")


def hold_interpreter(seconds: float) -> None:
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def serve_rooms(pipe: Connection, open_all: Callable[[range], list[Any]]) -> None:
    """Open the rooms that the pipe tells, or hold the interpreter for so long. Answer with the
    failures of all.
    """
    ends: list[Any] = []
    while True:
        match pipe.recv():
            case float(seconds):
                hold_interpreter(seconds)
            case rooms:
                ends += open_all(rooms)
                until(polls(ends, KVPoll.WAITING_FOR_INPUT))
        pipe.send([end.failure for end in ends])


def prefill_process(pipe: Connection) -> None:
    """A prefill rank, which sends nothing."""
    node = PrefillNode("p0", SourceDataPath("p0", Fabric()), link=LINK)
    pipe.send(node.endpoint)
    serve_rooms(pipe, lambda rooms: [node.open(room) for room in rooms])


def decode_process(pipe: Connection) -> None:
    """A decode rank of the prefill rank whose endpoint the pipe tells first."""
    node = DecodeNode("d0", SinkDataPath("d0", Fabric()), link=LINK, incarnation=17)
    source = pipe.recv()
    serve_rooms(pipe, lambda rooms: published(node.open(room, {"p0": source}) for room in rooms))


def registry_process(pipe: Connection) -> None:
    with RegistryServer(limits=Limits(silent_s=6.0)) as server:
        pipe.send(server.address)
        while True:
            hold_interpreter(pipe.recv())
            pipe.send(None)


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


def stands_still(
    how: str, process: psutil.Process, pipe: Connection, node: Any, ends: list[Any]
) -> None:
    """Half of the hand-overs of a node are open when the process of their other ends stands still,
    and half come after that, or meanwhile where it only is slow. None fails.
    """
    is_suspected: Callable[[], bool] = lambda: node.metrics.read()["suspected_peers"] == 1  # noqa: E731
    serves(pipe, ROOMS[:10], 10)
    with standing(how, process, pipe):
        if how == HOW[2]:
            serves(pipe, ROOMS[10:], 20)
        else:
            until(is_suspected)
            time.sleep(STANDS_S)
    if how != HOW[2]:
        serves(pipe, ROOMS[10:], 20)
    assert not any(one.poll() is KVPoll.FAILED for one in ends)
    until(lambda: not is_suspected())
    assert node.lost_peers() == ()


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_no_request_fails_while_prefill(how: str) -> None:
    with (victim(prefill_process) as (process, pipe),
          cluster(sources=0, link=LINK, waits={} if how == HOW[2] else WAITS) as nodes):
        (decode,), source = nodes.decodes, pipe.recv()
        stands_still(how, process, pipe, decode,
                     published([decode.open(room, {"p0": source}) for room in ROOMS]))


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_no_request_fails_while_decode(how: str) -> None:
    with (victim(decode_process) as (process, pipe),
          cluster(sinks=0, link=LINK, waits={} if how == HOW[2] else WAITS) as nodes):
        (source,) = nodes.prefills
        pipe.send(source.endpoint)
        stands_still(how, process, pipe, source, [source.open(room) for room in ROOMS])


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW[:2])
def test_no_rank_is_struck_out_while_the_registry(how: str) -> None:
    """The rank stands still with it, as on one host, and goes on later."""
    with victim(registry_process) as (process, pipe):
        client = RegistryClient(pipe.recv())
        client.register(prefill(of=1))
        client.keep_alive(ALONE)
        with standing(how, process, pipe):
            time.sleep(STANDS_S)
        client.keep_alive(ALONE)  # NotFoundError: struck out
        assert len(client.look_up_all().addresses()) == 1
        client.close()
