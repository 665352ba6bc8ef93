"""The part that searches out of core share, and Spark's part that needs no Spark."""

import json
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.__main__ import main
from pdproto.check import explore
from pdproto.check.checking import CheckSettings, check
from pdproto.check.engine import StoppedError
from pdproto.check.explore import PORTABLE
from pdproto.check.levels import FORMAT, KeptStatesError, name_of, parsed
from pdproto.check.portable import PortableEngine
from pdproto.check.result import Verdict
from pdproto.check.spark import session
from pdproto.check.spark.table import Places
from pdproto.cli.systems import load
from tests.check.programs import two_phase_commit
from tests.tiers import examples

Output = pytest.CaptureFixture[str]


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=4))
@settings(max_examples=examples(20, 50))
def test_ids_number_the_places_of_one_level_after_the_other(sizes: list[list[int]]) -> None:
    """Buckets may be empty, and levels too."""
    places = Places()
    for level in sizes:
        places.add(np.array(level, dtype=np.int64))
    every = [(level, bucket << 33 | row) for level, buckets in enumerate(sizes)
             for bucket, size in enumerate(buckets) for row in range(size)]
    assert [places.id(*one) for one in every] == list(range(places.states))
    found = places.places(np.arange(places.states, dtype=np.int64))
    assert [(level, place) for level, here in found for place in here.tolist()] == every


@pytest.mark.parametrize(("change", "told"), [
    ({"format": FORMAT - 1}, "of pdproto 0.1.0, format 0"),
    ({"version": "0.0.9"}, "of pdproto 0.0.9"),
    ({"program": "another"}, "of another system or other tables"),
])
def test_states_of_another_version_or_program_are_refused(
    change: dict[str, object], told: str
) -> None:
    program = two_phase_commit(3)
    head = {"format": FORMAT, "version": "0.1.0", "program": name_of(program)}
    assert parsed(json.dumps(head), program) == head
    with pytest.raises(KeptStatesError, match=told):
        parsed(json.dumps(head | change), program)
    for broken in ("{", "[]"):
        with pytest.raises(KeptStatesError, match="unreadable"):
            parsed(broken, program)


def test_an_older_database_is_refused_in_one_line_and_stays(
    capsys: Output, tmp_path: Path
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    command = ["check", "lock-server-broken", "--quiet", "--property", "mutual_exclusion",
               "--engine", "duckdb", "--states", str(tmp_path)]
    assert main(command) == 1
    (file,) = tmp_path.glob("*.duckdb")
    with duckdb.connect(str(file)) as connection:
        connection.execute("UPDATE levels SET progress = replace(progress, '0.1.0', '0.0.9')")
        states = connection.execute("SELECT count(*) FROM states").fetchone()
    capsys.readouterr()
    assert main(command) == 2
    assert capsys.readouterr() == ("", "pdproto: the kept states are of pdproto 0.0.9, format 1: "
                                       "name another folder\n")
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT count(*) FROM states").fetchone() == states


def test_a_search_that_its_engine_stops_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(PortableEngine):
        def step(self, states_max: int, *, strictly: bool = False) -> bool:
            if len(self.levels) == 3:
                raise StoppedError("a part is lost")
            return super().step(states_max, strictly=strictly)

    monkeypatch.setattr(explore, "PortableEngine", Lost)
    system = load("two-phase-commit")
    result = check(system, system.configurations["default"], CheckSettings(engine=PORTABLE))
    assert (result.stopped, result.complete) == ("a part is lost", False)
    assert {finding.verdict for finding in result.findings} == {Verdict.UNKNOWN}


class TestSparkThatIsNotThere:
    """One line, and exit status 2."""

    def told(self, capsys: Output, *options: str) -> str:
        assert main(["check", "lock-server", "--quiet", "--engine", "spark", *options]) == 2
        return capsys.readouterr().err

    def test_pyspark(self, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyspark", None)
        assert self.told(capsys) == ("pdproto: --engine spark: pyspark is not installed: "
                                     "pip install 'pdproto[spark]'\n")

    def test_java(self, capsys: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(session, "NEEDED", ())
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        assert "--engine spark: java is not installed: apt-get" in self.told(capsys)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert f"--engine spark: JAVA_HOME={tmp_path} has no java" in self.told(capsys)

    def test_the_cluster(self, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "_installed", lambda: None)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        for master, why in ((f"spark://127.0.0.1:{port}", "Connection refused"),
                            ("spark://nowhere", "a master is spark://HOST:PORT")):
            told = self.told(capsys, "--master", master)
            assert told.startswith(f"pdproto: --engine spark: no master answers at {master}: ")
            assert why in told
            assert told.count("\n") == 1

    def test_compare_says_that_it_has_no_answer(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pyspark", None)
        assert main(["compare", "lock-server-broken", "--with", "spark"]) == 3
        told = capsys.readouterr().out
        assert "no answer" in told
        assert "pip install 'pdproto[spark]'" in told


@pytest.mark.parametrize(("text", "line"), [
    ("Job aborted.\nCaused by: java.io.IOException: No space left on device\n\tat x",
     "java.io.IOException: No space left on device"),
    ("An error occurred while calling o1.\n: org.apache.spark.SparkException: Job aborted due to "
     "stage failure: Task 0 failed 4 times\n\tat a.b\nCaused by: org.X: Python worker exited "
     "unexpectedly (crashed)\n\t... 1 more", "org.X: Python worker exited unexpectedly (crashed)"),
    ("", "no reason was given"),
])
def test_the_reason_of_a_spark_error_is_one_line(text: str, line: str) -> None:
    assert session.reason(text) == line
