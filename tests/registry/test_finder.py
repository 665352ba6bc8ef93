"""A finder runs the sink's rows of the registry's table; all ends' traces together say so."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from io import BytesIO
from itertools import chain, count
from pathlib import Path
from socket import create_server
from threading import Event, Thread
from typing import Any

import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.registry import finder as registry_finder
from pdproto.registry.app import RegistryServer
from pdproto.registry.finder import Finder
from pdproto.registry.registrar import Registrar
from pdproto.registry.sink import SinkPart
from pdproto.registry.wire import Lookup, Rank, RankAddress, Registration
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.versions import VERSION
from pdproto.spec.handoff.registry import SYSTEM
from tests.node.data_paths import OWN_HOST
from tests.registry.test_trace import NEVER_SILENT, Traced, fall_silent
from tests.waiting import PATIENCE_S, ended, until

FIRST, SECOND = Rank(0, 0, 0, 0), Rank(0, 0, 1, 0)


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    traces = Traced(tmp_path)
    yield traces
    traces.opened.close()


@contextmanager
def registrar(
    traced: Traced, server: RegistryServer, rank: Rank, run: int = 1
) -> Iterator[Registrar]:
    """One of two tensor ranks. Each run of it listens somewhere else."""
    keeping = Registrar(
        f"{server.host}:{server.port}",
        Registration(attn_tp_size=2, attn_tp_rank=rank.tp, rank_ip="10.0.0.1",
                     rank_port=5000 + 10 * rank.tp + run, incarnation=run, version=VERSION),
        sign_of_life_s=0.05, retry_s=0.05, trace=traced(f"rank-{rank.tp}-{run}"))
    keeping.start()
    try:
        assert keeping.recorded.wait(PATIENCE_S)
        yield keeping
    finally:
        keeping.stop()


@contextmanager
def finder(
    server: RegistryServer, *ranks: Rank, trace: SharedTrace | None = None,
    given_up_s: float = 600.0, patience_s: float = 600.0,
) -> Iterator[Finder]:
    finding = Finder(f"{server.host}:{server.port}", "d0", ranks, retry_s=0.05,
                     given_up_s=given_up_s, patience_s=patience_s, trace=trace)
    finding.start()
    try:
        yield finding
    finally:
        finding.stop()
        finding.stop()


def ports(finding: Finder) -> list[int] | None:
    return None if finding.found is None else [a.rank_port for a in finding.found.values()]


def test_it_looks_all_ranks_up_and_calls_on_them(traced: Traced) -> None:
    with (RegistryServer(traces={SYSTEM.name: traced("registry")}) as server,
          registrar(traced, server, FIRST), registrar(traced, server, SECOND),
          finder(server, FIRST, SECOND, trace=traced("d0")) as finding):
        until(lambda: ports(finding) == [5001, 5011])
        assert finding.problem == ""
        assert server.app.answers["POST", "/ranks", 200] == 1
    rows = traced.rows()
    for row, times in (("open", 1), ("fill", 1), ("locate", 2), ("learn", 2), ("filled", 1),
                       ("call_on", 2)):
        assert rows[row] == times


def test_m1_4_the_run_that_was_lost_is_never_found_again(traced: Traced) -> None:
    """As long as the registry names it, it is asked again; then the next run is found."""
    traces = {SYSTEM.name: traced("registry")}
    with (RegistryServer(limits=NEVER_SILENT, traces=traces) as server,
          registrar(traced, server, SECOND), registrar(traced, server, FIRST) as dying,
          finder(server, FIRST, SECOND, trace=traced("d0")) as finding):
        until(lambda: finding.found is not None)
        before = finding.found
        assert before is not None
        finding.lose([FIRST], before)
        asked = server.app.answers["POST", "/ranks", 200]
        until(lambda: server.app.answers["POST", "/ranks", 200] > asked + 2)
        assert ports(finding) is None
        assert finding.problem == "rank dp0 cp0 tp0 pp0 is lost, and has not registered again"
        dying.stop(goodbye=False)
        fall_silent(server, FIRST)
        until(lambda: "1 of 2 ranks are missing" in finding.problem)
        with registrar(traced, server, FIRST, run=2):
            until(lambda: ports(finding) == [5002, 5011])
            after = finding.found
            finding.lose([FIRST], before)  # noticed late, and said of the run before
            assert finding.found is after
    traced.opened.close()
    verified = verify(SYSTEM, sorted(traced.folder.glob("*.jsonl")))
    assert verified.verdict is Verdict.HOLDS, verified
    # It died, which no line says: the registry has not heard of it, and the sink has missed it.
    assert verified.assumed == {"source": 2}
    rows = verified.rows
    assert rows["miss_heartbeat"] == rows["forget"] == rows["expire"] == 1
    for row in ("ignore_located_filling", "look_again", "answer_not_found"):
        assert rows[row] >= 1
    assert rows["miss"] == rows["clear"] == rows["open"] - 1 >= 1


def test_m1_2_a_missing_rank_fails_the_look_up_and_the_next_begins(traced: Traced) -> None:
    with (RegistryServer(traces={SYSTEM.name: traced("registry")}) as server,
          finder(server, SECOND, trace=traced("d0")) as finding):
        until(lambda: "no rank has registered" in finding.problem)
        with registrar(traced, server, SECOND):
            until(lambda: "rank dp0 cp0 tp0 pp0 first" in finding.problem)
            assert finding.found is None
            with registrar(traced, server, FIRST):
                until(lambda: ports(finding) == [5011])
    rows = traced.rows()
    assert rows["miss"] == rows["clear"] == rows["open"] - 1 >= 1
    assert rows["learn"] == rows["filled"] == rows["call_on"] == 1


def test_m1_2_a_registry_that_is_down_fails_the_look_up_too(traced: Traced) -> None:
    """It is asked for a while, then the hand-over fails; and it is found when it is there again."""
    with create_server((OWN_HOST, 0)) as unused:
        port = unused.getsockname()[1]
    told = BytesIO()

    def fired(row: str) -> int:
        return [json.loads(line).get("row") for line in told.getvalue().splitlines()].count(row)

    server = RegistryServer(OWN_HOST, port)
    with finder(server, FIRST, SECOND, trace=SharedTrace("d0", told), given_up_s=0.2) as finding:
        until(lambda: f"registry at {OWN_HOST}:{port}" in finding.problem)
        until(lambda: fired("give_up") > 0)
        assert fired("look_again") > 0
        with (server, registrar(traced, server, FIRST),
              registrar(traced, server, SECOND)):
            until(lambda: ports(finding) == [5001, 5011])
            assert finding.problem == ""
    assert fired("give_up") + fired("miss") == fired("clear") == fired("open") - 1


def test_the_time_for_which_the_process_stands_still_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen red with the host's clock in its place: the look-up fails."""
    times = chain([0.0], count(0.0, 3_600.0))  # each look comes an hour after the last one
    monkeypatch.setattr("pdproto.registry.finder.monotonic", lambda: next(times))
    with create_server((OWN_HOST, 0)) as unused:
        port = unused.getsockname()[1]
    told = BytesIO()
    with finder(RegistryServer(OWN_HOST, port), FIRST, trace=SharedTrace("d0", told)):
        until(lambda: told.getvalue().count(b"look_again") > 5)
    assert b"give_up" not in told.getvalue()


def test_the_problem_is_cleared_before_the_answer_can_be_read(
    monkeypatch: pytest.MonkeyPatch, traced: Traced
) -> None:
    """Also who asks between two steps of taking note of it: that one waits."""
    seen: list[tuple[bool, str]] = []
    hear = SinkPart.hear_located
    with RegistryServer() as server, finder(server, FIRST) as finding:
        until(lambda: "no rank has registered" in finding.problem)

        def look() -> None:
            seen.append((finding.found is not None, finding.problem))

        looking = Thread(target=look)

        def meanwhile(part: SinkPart, addresses: Mapping[Rank, RankAddress]) -> None:
            hear(part, addresses)
            if part.found is not None:
                looking.start()
                looking.join(0.2)  # as long as it takes who does not wait

        monkeypatch.setattr(SinkPart, "hear_located", meanwhile)
        with registrar(traced, server, FIRST), registrar(traced, server, SECOND):
            until(lambda: finding.found is not None)
            ended(looking)
    assert seen == [(True, "")]


def test_a_living_rank_that_was_cut_off_is_found_where_it_was(
    monkeypatch: pytest.MonkeyPatch, traced: Traced
) -> None:
    """The registry goes on listing it: then a sink under a new name asks."""
    seconds, goes_on = count(), Event()
    monkeypatch.setattr(registry_finder, "monotonic",
                        lambda: float(next(seconds)) if goes_on.is_set() else 0.0)
    traces = {SYSTEM.name: traced("registry")}
    with (RegistryServer(limits=NEVER_SILENT, traces=traces) as server,
          registrar(traced, server, FIRST), registrar(traced, server, SECOND),
          finder(server, FIRST, SECOND, trace=traced("d0"), patience_s=20.0) as finding):
        until(lambda: finding.found is not None)
        before = finding.found
        assert before is not None
        finding.lose([SECOND], before)
        assert ports(finding) is None
        goes_on.set()
        until(lambda: ports(finding) == [5001, 5011])
        assert finding.found is not before
        assert finding.problem == ""
        assert "d0#1" in repr(finding)
    traced.opened.close()
    verified = verify(SYSTEM, sorted(traced.folder.glob("*.jsonl")))
    assert verified.verdict is Verdict.HOLDS, verified
    assert verified.assumed == {"source": 1}  # that the connection broke
    rows = verified.rows
    for row in ("miss_heartbeat", "abandon", "fail_abandoned", "clear"):
        assert rows[row] == 1
    assert rows["open"] == 2
    assert rows["call_on"] == 4


def test_a_server_without_the_rank_that_is_needed(traced: Traced) -> None:
    with (RegistryServer() as server, registrar(traced, server, FIRST),
          registrar(traced, server, SECOND),
          finder(server, FIRST, Rank(0, 0, 0, 7)) as finding):
        until(lambda: finding.problem.endswith("there is no rank dp0 cp0 tp0 pp7"))
        assert finding.found is None


@pytest.mark.parametrize(("body", "named"), [
    ('{"sink": "d0", "handover": 1}', "ranks"),
    ('{"sink": "d0", "handover": 1, "ranks": []}', "ranks"),
    ('{"sink": "", "handover": 1, "ranks": [[0, 0, 0, 0]]}', "sink"),
    ('{"sink": "d0", "handover": -1, "ranks": [[0, 0, 0, 0]]}', "handover"),
    ('{"sink": "d0", "handover": 1, "ranks": [[0, 0, 0]]}', "ranks"),
])
def test_a_question_that_is_none_is_refused_by_its_field(body: str, named: str) -> None:
    with RegistryServer() as server:
        connection = HTTPConnection("127.0.0.1", server.port)
        connection.request("POST", "/ranks", body)
        answer = connection.getresponse()
        assert (answer.status, named in answer.read().decode()) == (400, True)
        connection.close()


def test_nothing_to_look_for_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="d0: no ranks to look up: want one or more"):
        Finder("127.0.0.1:1", "d0", [])


def test_a_registry_that_leaves_a_rank_out(
    monkeypatch: pytest.MonkeyPatch, traced: Traced
) -> None:
    with (RegistryServer() as server, registrar(traced, server, FIRST),
          registrar(traced, server, SECOND)):
        whole = server.app.registry.directory

        def half(_: Lookup) -> dict[str, Any]:
            answer = whole()
            return {**answer, "ranks": answer["ranks"][:1]}

        monkeypatch.setattr(server.app.registry, "directory", half)
        with finder(server, FIRST, SECOND) as finding:
            until(lambda: "its answer lacks rank dp0 cp0 tp1 pp0" in finding.problem)
            assert finding.found is None
