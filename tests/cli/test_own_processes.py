"""`pdproto sim` and `pdproto fuzz`: the processes of anybody's tables."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.__main__ import main as of_the_laboratory
from pdproto.cli.main import main
from tests.check.test_sequences import first_of_an_empty_list
from tests.docs.documents import ROOT

LEASE = f"{ROOT / 'examples' / 'lease_lock.py'}:SYSTEM"
BROKEN = "lock-server-broken"
Output = pytest.CaptureFixture[str]

WORLD = '''
from pdproto.spec.language import *
flips = Machine("sky", world=True)
SYSTEM = System("sky", "Only weather.", tables=(Table(flips, rows=(Row("rain"),)),))
'''

STILL = '''
from pdproto.spec.language import *
clock = Machine("clock")
told = clock.relation("told")
SYSTEM = System("still", "Nothing ever happens.", tables=(
    Table(clock, rows=(Row("tell", when=told(), do=told().to(False)),)),), final=TRUE)
'''

STARTS = '''
from pdproto.spec.language import *
class N(Sort): "A process."
n = N("n")
one = Machine("one", n)
up = one.relation("up")
SYSTEM = System("starts", "Comes up.", tables=(Table(one, rows=(
    Row("go", on=Call("go"), when=~up(n), do=up(n).to(True)),)),),
    properties=(Always("some_is_up", exists(n, up(n))),), final=TRUE,
    configurations={"default": Configuration({N: 1})})
'''

PAST_DEADLOCK, PAST_REFINES = map(first_of_an_empty_list, ("deadlock", "refines"))


def ran(capsys: Output, *arguments: object) -> tuple[int, str]:
    status = main([*map(str, arguments)])
    return status, " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize("verb", [("sim", "--seeds", 5, "--quiet"), ("fuzz", "--runs", 10)])
class TestBoth:
    def test_a_sound_system(
        self, capsys: Output, verb: tuple[object, ...], tmp_path: Path
    ) -> None:
        answer = tmp_path / "x.json"
        status, told = ran(capsys, *verb, "two-phase-commit", "--json", answer)
        assert status == 0
        assert "each compared with the tables" in told
        assert told.endswith("no violation was seen, which proves nothing")
        fired = {name for name, times in json.loads(answer.read_text())["rows"].items() if times}
        named = re.search(r"never fired: ((?:\w+, )*\w+)", told)
        assert fired
        assert named is None or fired.isdisjoint(named[1].split(", "))

    def test_without_a_step_nothing_was_compared(
        self, capsys: Output, verb: tuple[object, ...], tmp_path: Path
    ) -> None:
        spec = tmp_path / "still.py"
        spec.write_text(STILL)
        status, told = ran(capsys, *verb, f"{spec}:SYSTEM")
        assert status == 3
        assert told.endswith("no step was taken, so nothing was compared")

    def test_a_violation_is_short_and_replayed(
        self, capsys: Output, verb: tuple[object, ...], tmp_path: Path
    ) -> None:
        answer, page = tmp_path / "x.json", tmp_path / "x.html"
        more = ("--seeds", 200) if verb[0] == "sim" else ("--runs", 200)
        status, told = ran(capsys, *verb, *more, BROKEN, "--json", answer, "--html", page)
        assert status == 1
        said = re.search(r"mutual_exclusion violated for \S+ \S+ after (\d+) steps", told)
        assert said is not None
        assert 7 <= int(said[1]) <= 12  # 7 is the shortest
        found = json.loads(answer.read_text())
        assert found["verdict"] == "violated"
        assert found["rows"]["expire"] > 0
        assert "mutual_exclusion" in page.read_text()
        assert found["replay"] in told
        status, again = ran(capsys, *found["replay"].split()[1:])
        assert status == 1
        assert said[0] in again

    def test_one_seed_gives_one_answer(
        self, capsys: Output, verb: tuple[object, ...], tmp_path: Path
    ) -> None:
        texts = []
        for name in ("a.json", "b.json"):
            ran(capsys, *verb, "lock-server", "--json", tmp_path / name)
            texts.append((tmp_path / name).read_text())
        assert texts[0] == texts[1]
        assert json.loads(texts[0])["verdict"] == "no violation seen"

    def test_sizes_and_faults(self, capsys: Output, verb: tuple[object, ...]) -> None:
        status, told = ran(capsys, *verb, "lock-server", "--size", "Client=1", "--faults", "lossy")
        assert status == 0
        assert told.startswith("lock-server Client=1, Round=2, lossy")

    def test_a_system_without_processes_is_refused(
        self, capsys: Output, verb: tuple[object, ...], tmp_path: Path
    ) -> None:
        (tmp_path / "sky.py").write_text(WORLD)
        status, told = ran(capsys, *verb, f"{tmp_path / 'sky.py'}:SYSTEM")
        assert status == 2
        assert told == ("pdproto: sky has no machine but hosts and the world: there is no "
                        "process to run; `pdproto run` walks through its tables")


def test_a_system_in_a_file_runs_with_its_clocks(capsys: Output) -> None:
    """The lease lock: an ordered sort of tokens, a timer, and three kinds of machines."""
    status, told = ran(capsys, "sim", LEASE, "--seeds", 5, "--quiet")
    assert status == 0
    assert "5 runs, " in told
    assert "virtual seconds" in told


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("question", ["deadlock", "refines"])
def test_fuzzing_sees_what_reads_past_an_end(
    capsys: Output, question: str, asked: bool
) -> None:
    """At the start, where `final=` and the mapping of a refinement read an empty list."""
    status, told = ran(capsys, "fuzz", f"{__name__}:PAST_{question.upper()}", "--runs", 5,
                       *(("--property", question) if asked else ()))
    assert status == 1
    assert f"{question}_stays_in_range violated at the start" in told


@pytest.mark.parametrize("verb", [("sim", "--seed", 0, "--quiet"), ("fuzz", "--runs", 5)])
def test_a_claim_that_fails_at_the_start_alone_is_seen(
    capsys: Output, verb: tuple[object, ...], tmp_path: Path
) -> None:
    spec = tmp_path / "start.py"
    spec.write_text(STARTS)
    status, told = ran(capsys, *verb, f"{spec}:SYSTEM")
    assert status == 1
    assert "some_is_up violated at the start" in told


@pytest.mark.parametrize("verb", ["sim", "fuzz"])
def test_a_table_that_the_runtime_cannot_run_is_named(capsys: Output, verb: str) -> None:
    """A process of the ring would have to tell its own number from that of a message."""
    status, told = ran(capsys, verb, "ring-election")
    assert status == 2
    assert re.search(r"ring_election\.py:\d+: row 'win': its trigger names a variable twice: the "
                     r"runtime cannot run ring-election; `pdproto run` ", told)


def test_a_variable_of_another_system_is_no_part_of_an_end(capsys: Output) -> None:
    """A variant, trtllm-cancel-poisoned, has declared one more on a machine that both share."""
    status = of_the_laboratory(["sim", "trtllm-cancel", "--seed", "0", "--quiet"])
    told = capsys.readouterr().out
    assert status in (0, 1)
    assert told.startswith("trtllm-cancel ")


def test_another_seed_gives_other_runs(capsys: Output) -> None:
    first, second = (ran(capsys, "fuzz", "lock-server", "--runs", 5, "--seed", seed, "--json", "-")
                     for seed in (1, 2))
    assert first != second


def test_fuzzing_leaves_nothing_in_the_folder(tmp_path: Path) -> None:
    """In a process of its own: the tests have other settings of Hypothesis."""
    done = subprocess.run(
        [sys.executable, "-m", "pdproto.cli.main", "fuzz", BROKEN], cwd=tmp_path, timeout=60,
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (1, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_seeds_are_shared_by_processes(capsys: Output, tmp_path: Path) -> None:
    texts = []
    for workers in (1, 2):
        target = tmp_path / f"{workers}.json"
        ran(capsys, "sim", BROKEN, "--seeds", 4, "--workers", workers, "--quiet",
            "--json", target)
        texts.append(target.read_text())
    assert texts[0] == texts[1]


def test_a_blob_of_another_system_is_refused(capsys: Output) -> None:
    status, told = ran(capsys, "fuzz", "lock-server", "--replay", "AAAA")
    assert status == 2
    assert told.startswith("pdproto: --replay AAAA: no run of this system at these sizes; ")
