"""A registrar runs the rows of its table; both ends' traces, replayed together, say so."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pdproto.check.trace.verify import verify
from pdproto.registry.app import RegistryServer
from pdproto.registry.registrar import Registrar
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Rank, Registration
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.store import Shared
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.runtime.versions import VERSION
from pdproto.spec.handoff import bootstrap, registry_world
from pdproto.spec.handoff import registry as tables
from pdproto.spec.handoff.ends import Memory, memory
from pdproto.spec.handoff.registry import SYSTEM
from pdproto.spec.handoff.roles import Source
from pdproto.spec.handoff.sink import POOL
from tests.node.data_paths import OWN_HOST
from tests.waiting import PATIENCE_S, until


class Traced:
    """Traces by name, and what they conform to in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened = ExitStack()

    def __call__(self, name: str) -> SharedTrace:
        target = self.opened.enter_context((self.folder / f"{name}.jsonl").open("wb"))
        return SharedTrace(name, target)

    def rows(self) -> Mapping[str, int]:
        """How often each row has fired, where all of them may have."""
        self.opened.close()
        verified = verify(SYSTEM, sorted(self.folder.glob("*.jsonl")))
        assert verified.is_explained, verified
        assert verified.assumed == {}
        return verified.rows


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    traces = Traced(tmp_path)
    yield traces
    traces.opened.close()


@contextmanager
def registrar(traced: Traced, address: str, rank: int, run: int = 1) -> Iterator[Registrar]:
    """One of two tensor ranks."""
    keeping = Registrar(
        address,
        Registration(attn_tp_size=2, attn_tp_rank=rank, rank_ip="10.0.0.1", rank_port=5000 + rank,
                     incarnation=run, version=VERSION),
        sign_of_life_s=0.05, retry_s=0.05, trace=traced(f"rank-{rank}-{run}"))
    keeping.start()
    try:
        yield keeping
    finally:
        keeping.stop()


# Nobody who lives is silent for so long, however long the machine stands still.
NEVER_SILENT = Limits(silent_s=600.0)


def heard(server: RegistryServer, rank: Rank, run: int = 1) -> float:
    """When the registry has last heard of a run."""
    known = server.app.registry.server
    assert known is not None
    return known.runs[rank][run].heard


def fall_silent(server: RegistryServer, rank: Rank, run: int = 1) -> None:
    """As if nothing had been heard of a run for as long as is waited for it."""
    known = server.app.registry.server
    assert known is not None
    known.runs[rank][run].heard -= server.app.registry.limits.silent_s


def test_it_enrolls_is_recorded_and_leaves(traced: Traced) -> None:
    with RegistryServer(traces={SYSTEM.name: traced("registry")}) as server:
        address = f"127.0.0.1:{server.port}"
        with registrar(traced, address, 0) as first, registrar(traced, address, 1) as second:
            assert first.recorded.wait(PATIENCE_S)
            assert second.recorded.wait(PATIENCE_S)
            assert server.app.registry.ready
    rows = traced.rows()
    for row in ("enroll", "record", "be_recorded", "leave", "strike_out"):
        assert rows[row] == 2
    assert "enroll_again" not in rows


def test_with_a_registry_that_has_restarted_it_begins_anew(traced: Traced) -> None:
    """It does not know the run that the one before had recorded: the lease is lost."""
    with RegistryServer(OWN_HOST, traces={SYSTEM.name: traced("registry-1")}) as server:
        port = server.port
        keeping = traced.opened.enter_context(registrar(traced, f"{OWN_HOST}:{port}", 0))
        assert keeping.recorded.wait(PATIENCE_S)
    with RegistryServer(OWN_HOST, port, traces={SYSTEM.name: traced("registry-2")}) as server:
        until(lambda: server.app.registry.present_ranks == 1)
        keeping.stop()
    rows = traced.rows()
    assert rows["enroll"] == rows["record"] == rows["be_recorded"] == 2
    assert rows["leave"] == rows["strike_out"] == 1


def test_one_that_a_later_run_has_followed_is_refused_and_goes_on_asking(traced: Traced) -> None:
    with RegistryServer(traces={SYSTEM.name: traced("registry")}) as server:
        address = f"127.0.0.1:{server.port}"
        with registrar(traced, address, 0, run=2) as later:
            assert later.recorded.wait(PATIENCE_S)
            with registrar(traced, address, 0, run=1) as earlier:
                until(lambda: earlier.refused is not None)
                assert not earlier.recorded.is_set()
                asked = server.app.answers["PUT", "/route", 409]
                until(lambda: server.app.answers["PUT", "/route", 409] > asked)
    rows = traced.rows()
    assert rows["record"] == 1
    assert rows["enroll"] == 2
    assert rows["enroll_again"] >= 1
    assert rows["ignore_register_collecting_ready"] == rows["enroll_again"] + 1


def test_only_rows_of_the_world_change_a_machine_from_outside() -> None:
    rank, run = Rank(0, 0, 0, 0), (1, Rank(0, 0, 0, 0))
    machine = Shared(tables.SOURCE, (rank, run))
    with pytest.raises(LocalProtocolError, match="the world has no row 'enroll'"):
        machine.apply_fault(tables.SOURCE, "enroll")
    with pytest.raises(LocalProtocolError, match="the world has no row 'stop'"):
        machine.apply_fault(registry_world.OPERATOR, "stop")
    assert machine.fire("enroll") is None
    machine.apply_fault(registry_world.OPERATOR, "start", p=rank, e=run)
    assert machine.fire("enroll") is not None


def test_a_rank_that_dies_is_missed_though_nobody_says_so(traced: Traced) -> None:
    traces = {SYSTEM.name: traced("registry")}
    with RegistryServer(limits=NEVER_SILENT, traces=traces) as server:
        with registrar(traced, f"127.0.0.1:{server.port}", 0) as dying:
            assert dying.recorded.wait(PATIENCE_S)
            dying.stop(goodbye=False)
        fall_silent(server, Rank(0, 0, 0, 0))
        until(lambda: server.app.registry.present_ranks == 0)
    traced.opened.close()
    verified = verify(SYSTEM, sorted(traced.folder.glob("*.jsonl")))
    assert verified.is_explained, verified
    assert verified.assumed == {"source": 1}
    assert verified.rows["expire"] == 1
    assert "leave" not in verified.rows


def test_messages_and_writes_of_another_machine_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as target:
        trace = SharedTrace("node", target)
        machine = shared(tables.REGISTRY, (), {Source: range(2)}, trace=trace)
        machine.set(bootstrap.suspected, (0, 5), value=True)
        pool = shared(POOL, ("d",), trace=trace)
        pool.set(memory, ("d", 7), Memory.ASKED)
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line for line in told if "heard" in line] == [
        {"n": 2, "node": "node", "machine": "registry", "end": 1, "heard": "suspected",
         "of": [0, 5]}]
    assert told[-1]["device"] == [["memory", ["d", 7], "asked"]]


def test_a_full_disk_ends_the_trace_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def write(self, _: bytes, /) -> None:
            raise OSError("no space left on device")

    trace = SharedTrace("node", Full())
    machine = shared(tables.SOURCE, (0, 5), trace=trace)
    machine.apply_fault(registry_world.OPERATOR, "start", p=0, e=5)
    assert machine.fire("enroll") is not None
    assert trace.ended == "no space left on device"
    assert "no space left on device" in caplog.text
