"""Two registries over real etcd: either dies, etcd's leader stands still, and hand-overs go on."""

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import requests

from pdproto import DecodeNode, KVPoll, PrefillNode, SinkPages, SourcePages
from pdproto.engine.engines import open_sink, open_source
from pdproto.net.hosts import split
from pdproto.registry.client import NotFoundError, RegistryClient, UnreachableError
from pdproto.registry.etcd import EtcdLog
from pdproto.registry.log import Item
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Rank, Run
from tests import skips
from tests.registry.served import prefill
from tests.waiting import PATIENCE_S, ended, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("etcd") is None, reason=skips.NO_ETCD),
]

SILENT_S: Final = 6.0  # more than waits.store_silent
RANKS: Final = 4
ETCDCTL: Final = shutil.which("etcdctl")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Member:
    """One member of an etcd cluster."""

    def __init__(self, number: int, folder: Path, peers: list[str]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        names = ",".join(f"m{i}={url}" for i, url in enumerate(peers))
        self._data = folder / f"m{number}"
        self._backup = folder / f"m{number}.backup"
        self._identity = ["--name", f"m{number}", "--data-dir", str(self._data),
                          "--initial-advertise-peer-urls", peers[number],
                          "--initial-cluster", names]
        self._line = ["etcd", *self._identity, "--listen-client-urls", self.url,
                      "--advertise-client-urls", self.url, "--listen-peer-urls", peers[number],
                      "--log-level", "error"]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        yield
        self.process = self._start()
        until(self.is_leading, "etcd does not come back")

    def lose_all(self) -> None:
        """Come back with an empty disk."""
        with self.stopped():
            shutil.rmtree(self._data)

    def save(self) -> None:
        """Write a backup by etcd's own tool, or copy the disk where that is not installed."""
        if ETCDCTL is not None:
            self._tool("snapshot", "save", self._backup)
        else:
            with self.stopped():
                shutil.copytree(self._data, self._backup)

    def restore(self) -> None:
        """Come back with the backup."""
        with self.stopped():
            shutil.rmtree(self._data)
            if ETCDCTL is not None:
                self._tool("snapshot", "restore", self._backup, *self._identity)
            else:
                shutil.copytree(self._backup, self._data)

    def _tool(self, *words: str | Path) -> None:
        subprocess.run([str(ETCDCTL), "--endpoints", self.url, *words], check=True,
                       env={"ETCDCTL_API": "3"}, capture_output=True, timeout=PATIENCE_S)

    def status(self) -> dict[str, Any]:
        answer = requests.post(f"{self.url}/v3/maintenance/status", json={}, timeout=2.0)
        found: dict[str, Any] = answer.json()
        return found

    def is_leading(self) -> bool:
        try:
            status = self.status()
        except (OSError, ValueError):
            return False
        return bool(status.get("leader")) and status["leader"] == status["header"]["member_id"]


@contextmanager
def etcd(folder: Path, members: int) -> Iterator[list[Member]]:
    peers = [f"http://127.0.0.1:{free_port()}" for _ in range(members)]
    started: list[Member] = []
    try:
        started += (Member(number, folder, peers) for number in range(members))
        until(lambda: any(one.is_leading() for one in started), "etcd elects no leader")
        yield started
    finally:
        for one in started:
            one.process.kill()
            one.process.wait(PATIENCE_S)


@contextmanager
def registry(store: str | None, port: str = "0") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address and the process of a registry. store: of etcd; None: it has no other."""
    sharing = [] if store is None else ["--store", store]
    with subprocess.Popen(
        [sys.executable, "-m", "pdproto.cli.main", "registry", "--port", port, *sharing,
         "--silent", f"{SILENT_S:g}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as serving:
        try:
            assert serving.stdout is not None
            yield serving.stdout.readline().strip().removeprefix("registry at http://"), serving
        finally:
            serving.kill()


class Ranks:
    """Prefill ranks in nodes of this process, each registered at both registries' address, and a
    decode node that hands over from each in turn and looks its addresses up before each request.
    """

    def __init__(self, addresses: str, looks_at: str, opened: ExitStack) -> None:
        self.done = 0
        self.failed: list[str] = []
        self.client = RegistryClient(looks_at)
        self._page = np.arange(16 * 8, dtype=np.uint16).reshape(1, 16, 1, 8)
        self.nodes = [
            opened.enter_context(closing(PrefillNode(
                f"p{rank}", SourcePages([self._page], open_source("tcp")))))
            for rank in range(RANKS)]
        pools = {node.name: [np.zeros_like(self._page)] for node in self.nodes}
        self.decode = opened.enter_context(closing(
            DecodeNode("d", SinkPages(pools, open_sink("tcp")))))
        self.registrars = []
        for rank, node in enumerate(self.nodes):
            host, port = split(node.endpoint.removeprefix("tcp://"))
            keeping = Registrar(
                addresses, prefill(rank, of=RANKS, rank_ip=host, rank_port=port, name=node.name),
                sign_of_life_s=0.5, retry_s=0.2)
            keeping.start()
            opened.callback(keeping.stop)
            self.registrars.append(keeping)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._hand_over)
        opened.callback(self.stop)

    def start(self) -> None:
        for keeping in self.registrars:
            assert keeping.recorded.wait(PATIENCE_S)
        until(self._is_ready)
        self._thread.start()
        self.go_on(3)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            ended(self._thread)
        self.client.close()

    def go_on(self, requests: int) -> None:
        """Wait for so many more requests."""
        enough = self.done + requests
        until(lambda: self.done >= enough, "no request is done any more")

    def _is_ready(self) -> bool:
        try:
            self.client.health()
        except (NotFoundError, UnreachableError):
            return False
        return True

    def _hand_over(self) -> None:
        room = 0
        while not self._stopping.is_set():
            room += 1
            try:
                found = self.client.look_up_all().addresses()
                assert [at.name for at in found.values()] == [one.name for one in self.nodes]
                at = found[Rank(0, 0, room % RANKS, 0)]
                sender = self.nodes[room % RANKS].open(room=room)
                receiver = self.decode.open(
                    room=room, sources={at.name: f"tcp://{at.rank_ip}:{at.rank_port}"}, pages=[0])
                wait_for(sender, KVPoll.WAITING_FOR_INPUT)
                sender.send([0])
                wait_for(receiver, KVPoll.SUCCESS)
                receiver.close()
                until(partial(getattr, receiver, "released"), "its page is not free again")
                self.done += 1
            except Exception as error:
                self.failed.append(f"room {room}: {error!r}")
            time.sleep(0.02)


@contextmanager
def closing(node: Any) -> Iterator[Any]:
    try:
        yield node
    finally:
        node.close()


def wait_for(handle: Any, state: KVPoll) -> None:
    until(lambda: handle.poll() in (state, KVPoll.FAILED, KVPoll.SUCCESS))
    assert handle.poll() in (state, KVPoll.SUCCESS), handle.failure


def test_hand_overs_go_on_when_either_registry_is_killed(tmp_path: Path) -> None:
    """Each of two registries dies while the look-ups go to the other: no request fails."""
    with ExitStack() as opened:
        [member] = opened.enter_context(etcd(tmp_path, 1))
        first, first_process = opened.enter_context(registry(member.url))
        second, second_process = opened.enter_context(registry(member.url))
        ranks = Ranks(f"{first},{second}", second, opened)
        ranks.start()
        first_process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        while time.monotonic() - began < 1.5 * SILENT_S:
            ranks.go_on(5)
        third, _ = opened.enter_context(registry(member.url))
        joined = RegistryClient(third)
        opened.callback(joined.close)
        until(lambda: is_complete(joined))
        with closing(RegistryClient(second)) as beside:  # another thread asks by `ranks.client`
            assert joined.look_up_all() == beside.look_up_all()
        assert ranks.failed == []
        ranks.stop()
        second_process.send_signal(signal.SIGKILL)
        assert len(joined.look_up_all().ranks) == RANKS


def is_complete(client: RegistryClient) -> bool:
    try:
        client.health()
    except (NotFoundError, UnreachableError):
        return False
    return True


def test_hand_overs_go_on_when_the_leader_of_etcd_stands_still(tmp_path: Path) -> None:
    """A rank that says goodbye meanwhile is listed by no registry after its lease, also by the
    one that has read from the leader.
    """
    with ExitStack() as opened:
        members = opened.enter_context(etcd(tmp_path, 3))
        store = ",".join(one.url for one in members)
        first, _ = opened.enter_context(registry(store))
        second, _ = opened.enter_context(registry(store))
        ranks = Ranks(f"{first},{second}", second, opened)
        ranks.start()
        [leader] = [one for one in members if one.is_leading()]
        leader.process.send_signal(signal.SIGSTOP)
        others = [one for one in members if one is not leader]
        until(lambda: any(one.is_leading() for one in others), "no other leader")
        began = time.monotonic()
        while time.monotonic() - began < 1.5 * SILENT_S:
            ranks.go_on(5)
        leader.process.send_signal(signal.SIGCONT)
        ranks.go_on(20)
        assert ranks.failed == []
        ranks.stop()
        ranks.registrars[0].stop(goodbye=False)
        silent_since = time.monotonic()
        clients = [RegistryClient(one) for one in (first, second)]
        for client in clients:
            opened.callback(client.close)
        until(lambda: not any(is_complete(client) for client in clients))
        assert time.monotonic() - silent_since < 3 * SILENT_S


def test_a_registry_without_etcd_answers_nothing_after_the_lease(tmp_path: Path) -> None:
    """Every member of etcd stands still: the registry cannot know whether a rank is there."""
    with ExitStack() as opened:
        [member] = opened.enter_context(etcd(tmp_path, 1))
        address, _ = opened.enter_context(registry(member.url))
        client = RegistryClient(address)
        opened.callback(client.close)
        client.register(prefill(of=1))
        client.look_up_all()
        member.process.send_signal(signal.SIGSTOP)
        until(lambda: not is_complete(client))
        with pytest.raises(UnreachableError, match="the store has shown nothing for"):
            client.look_up_all()
        member.process.send_signal(signal.SIGCONT)
        until(lambda: is_complete(client))
        client.deregister(Run(0, 0, 0, 0, 1))
        assert not is_complete(client)


@pytest.mark.nightly
def test_the_log_is_trimmed_and_a_new_registry_reads_the_state(tmp_path: Path) -> None:
    with ExitStack() as opened:
        [member] = opened.enter_context(etcd(tmp_path, 1))
        address, _ = opened.enter_context(registry(member.url))
        client = RegistryClient(address)
        opened.callback(client.close)
        for run in range(1, 1_060):
            client.register(prefill(of=1, run=run))
        until(lambda: keys(member) < 300, "the log is not trimmed")
        later, _ = opened.enter_context(registry(member.url))
        joined = RegistryClient(later)
        opened.callback(joined.close)
        until(lambda: is_complete(joined))
        assert joined.look_up_all().ranks[0].address.incarnation == 1_059


def keys(member: Member) -> int:
    answer = requests.post(f"{member.url}/v3/kv/range", timeout=5.0, json={
        "key": "AA==", "range_end": "AA==", "count_only": True})
    return int(answer.json().get("count", 0))


@pytest.mark.parametrize("revisions", [
    pytest.param(0, id="back"), pytest.param(1_400, id="beyond", marks=pytest.mark.nightly)])
def test_registries_go_on_when_etcd_has_lost_its_data(tmp_path: Path, revisions: int) -> None:
    """Etcd comes back with an empty disk, at a lower revision than before or at a higher one.

    Seen red for both without `_require_unchanged`: "back" waits for a revision that does not come,
    and "beyond" has ranks in two registries that one which starts later does not have.
    """
    with ExitStack() as opened:
        [member] = opened.enter_context(etcd(tmp_path, 1))
        two = [opened.enter_context(registry(member.url)) for _ in range(2)]
        clients = [RegistryClient(address) for address, _ in two]
        for rank in range(2):
            keeping = Registrar(",".join(address for address, _ in two), prefill(rank, of=2),
                                sign_of_life_s=0.5, retry_s=0.2)
            keeping.start()
            opened.callback(keeping.stop, goodbye=False)
        until(lambda: all(map(is_complete, clients)), "the ranks are not listed")
        fill(member, 1_000)
        for _, process in two:
            process.send_signal(signal.SIGSTOP)
        member.lose_all()
        fill(member, revisions)
        for _, process in two:
            process.send_signal(signal.SIGCONT)
        later, _ = opened.enter_context(registry(member.url))
        clients.append(RegistryClient(later))
        for client in clients:
            opened.callback(client.close)
        until(lambda: all(map(is_complete, clients)), "the ranks are not listed again")
        assert len({str(client.look_up_all()) for client in clients}) == 1


@pytest.mark.parametrize("revisions", [0, pytest.param(1_400, marks=pytest.mark.nightly)])
def test_registries_go_on_when_etcd_is_restored_from_a_backup(
    tmp_path: Path, revisions: int
) -> None:
    """One registry stands still meanwhile, so it goes on with what it knew of the newer store. A
    rank that has been started anew since the backup is listed by its new run.
    """
    with ExitStack() as opened:
        [member] = opened.enter_context(etcd(tmp_path, 1))
        two = [opened.enter_context(registry(member.url)) for _ in range(2)]
        clients = [RegistryClient(address) for address, _ in two]

        def begin(rank: int, run: int) -> Registrar:
            keeping = Registrar(",".join(address for address, _ in two),
                                prefill(rank, of=2, run=run), sign_of_life_s=0.5, retry_s=0.2)
            keeping.start()
            opened.callback(keeping.stop, goodbye=False)
            return keeping

        def runs() -> list[list[int | None]]:
            return [[one.address.incarnation for one in client.look_up_all().ranks]
                    if is_complete(client) else [] for client in clients]

        begin(0, 1)
        older = begin(1, 1)
        until(lambda: runs() == [[1, 1]] * 2, "the ranks are not listed")
        member.save()
        older.stop(goodbye=False)
        begin(1, 2)
        until(lambda: runs() == [[1, 2]] * 2, "the new run is not listed")
        fill(member, 100)
        two[0][1].send_signal(signal.SIGSTOP)
        member.restore()
        fill(member, revisions)
        two[0][1].send_signal(signal.SIGCONT)
        later, _ = opened.enter_context(registry(member.url))
        clients.append(RegistryClient(later))
        for client in clients:
            opened.callback(client.close)
        until(lambda: runs() == [[1, 2]] * 3, lambda: f"listed: {runs()}")
        assert len({str(client.look_up_all()) for client in clients}) == 1


def fill(member: Member, revisions: int) -> None:
    """Write a key of another program so many times."""
    with requests.Session() as asked:
        for _ in range(revisions):
            put(member, "another", asked)


def put(member: Member, key: str, asked: Any = requests) -> None:
    told = {"key": b64encode(key.encode()).decode(), "value": ""}
    asked.post(f"{member.url}/v3/kv/put", timeout=5.0, json=told).raise_for_status()


async def first_item(log: EtcdLog) -> Item:
    try:
        return await anext(log.follow())
    finally:
        await log.close()


def test_a_log_of_another_format_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as opened:
        [member] = opened.enter_context(etcd(tmp_path, 1))
        for key in ("/pdproto/2/default/state", "/pdproto/1/default/other", "/pdprotox"):
            put(member, key)
        asyncio.run(first_item(EtcdLog([member.url], "default")))
    [told] = caplog.messages
    assert told.startswith("etcd has the key /pdproto/2/default/state, and this registry writes "
                           "below /pdproto/1/: ")
