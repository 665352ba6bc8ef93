"""Nothing counts as proved that was not: after edits, and with broken caches, disks and workers."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Final

import pytest

from pdproto.check import identity
from pdproto.check.prove import assurance, digests, proving
from pdproto.check.prove.assurance import cache_folder, recall
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.kept import FILE, KeptProofs
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.language import System

Output = pytest.CaptureFixture[str]

SYSTEM: Final = "two-phase-commit"

HEAD: Final = """
from pdproto.spec.language import *
from pdproto.spec.language.ranking import *
class One(Sort): "a sort"
class Two(Sort): "another, with variables of the same name"
class Phase(State):
    A = auto(); B = auto(); C = auto()
a, b, c = One("a"), One("b"), One("c")
t, u = One("t"), Two("t")
three = all_of(a.differs(b), b.differs(c), a.differs(c))
m = Machine("m")
"""
SORTS: Final = HEAD + """
got = m.relation("got", One); m.relation("other", Two); went = m.relation("went")
SYSTEM = System("s", "", (Table(m, rows=(
    Row("go", on=Call("go", t), when=~went(), do=[got(t).to(True), went().to(True)]),)),),
    (Always("claim", implies(went(), EDIT)),), final=TRUE)
"""
FAIR: Final = HEAD + """
got = m.relation("got", One); done = m.relation("done")
few = forall((a, b, c), ~three)
SYSTEM = System("s", "", (Table(m, rows=(
    Row("get", on=Call("get", a), do=got(a).to(True)),
    Row("end", on=EDIT("end"), when=~done(), do=done().to(True)),
    Row("end_few", when=[few, ~done()], do=done().to(True)))),),
    (LeadsTo("claim", got(a), done(), under=Fairness.TIMERS),), final=all_of())
RANKINGS = (Ranking("claim", (Help("end"), Help("end_few"))),)
"""
EDGES: Final = HEAD + """
claim = m.function("claim", Phase, One, edges={Phase.A: (Phase.B,), Phase.B: EDIT, Phase.C: ()})
SYSTEM = System("s", "", (Table(m, rows=(
    Row("begin", on=Call("begin", a), when=claim(a) == Phase.A, do=claim(a).to(Phase.B)),
    Row("third", on=Call("third", a, b, c), when=[three, claim(a) == Phase.B],
        do=claim(a).to(Phase.C)))),), (), final=TRUE)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(("text", "right", "wrong", "name"), [
    (SORTS, "forall(u, exists(t, got(t)))", "forall(t, exists(u, got(t)))", "claim"),
    (FAIR, "Timer", "Call", "claim"),
    (EDGES, "(Phase.C,)", "()", "claim_edges"),
], ids=["sorts", "fairness", "edges"])
def test_a_proof_counts_for_no_edited_table(
    text: str, right: str, wrong: str, name: str, tmp_path: Path, capsys: Output
) -> None:
    """The edit is in the same file, at the same place, and reads alike."""
    spec = tmp_path / "spec.py"
    asked = f"{spec}:SYSTEM"
    sizes = ["--size", "One=2", "--size", "Two=1"] if text is SORTS else ["--size", "One=2"]
    spec.write_text(text.replace("EDIT", right), encoding="utf-8")
    assert main(["prove", asked, "--quiet"]) == 0
    main(["check", asked, *sizes, "--quiet"])
    assert "proved for every size" in " ".join(capsys.readouterr().out.split())
    spec.write_text(text.replace("EDIT", wrong), encoding="utf-8")
    main(["check", asked, *sizes, "--quiet"])
    assert "every size" not in " ".join(capsys.readouterr().out.split())
    assert main(["prove", asked, "--quiet"]) == 1
    assert f"failed    {name}" in capsys.readouterr().out


def test_a_copy_without_lemmas_is_told_that_there_are_some(
    tmp_path: Path, capsys: Output
) -> None:
    lemma = 'LEMMAS = (Always("some_lemma", implies(went(), exists(t, got(t)))),)\n'
    spec = tmp_path / "spec.py"
    text = SORTS.replace("EDIT", "exists(t, got(t))")
    spec.write_text(text + lemma, encoding="utf-8")
    assert main(["prove", f"{spec}:SYSTEM", "--quiet"]) == 0
    spec.write_text(text, encoding="utf-8")
    capsys.readouterr()
    main(["check", f"{spec}:SYSTEM", "--size", "One=1", "--size", "Two=1", "--quiet"])
    told = " ".join(capsys.readouterr().out.split())
    assert "proved for every size from 1 on with some_lemma" in told


def answered(status: Status) -> object:
    def decide(_: System, found: Sequence[Obligation], __: float) -> Iterator[Judgement]:
        yield from (Judgement(status, "it says so") for _ in found)

    return decide


def test_a_solver_that_gives_up_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    for engine in (CUTOFF, QUANTIFIED):
        monkeypatch.setitem(proving.ENGINES, engine, answered(Status.UNKNOWN))
    assert main(["prove", SYSTEM, "--quiet"]) == 3
    assert "proved    agreement" not in capsys.readouterr().out
    assert recall(cache_folder(), load(SYSTEM)) == {}


@pytest.mark.parametrize("other", [Status.UNKNOWN, Status.FAILED])
def test_engines_that_differ_prove_nothing(
    other: Status, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """With --engine both, an engine that gives up is not outvoted."""
    monkeypatch.setitem(proving.ENGINES, CUTOFF, answered(Status.PROVED))
    monkeypatch.setitem(proving.ENGINES, QUANTIFIED, answered(other))
    assert main(["prove", SYSTEM, "--engine", "both", "--quiet"]) == 3
    assert "proved    agreement" not in capsys.readouterr().out
    assert recall(cache_folder(), load(SYSTEM)) == {}


def test_a_killed_worker_proves_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def killed(_: System, __: Sequence[Obligation], ___: float) -> Iterator[Judgement]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield Judgement(Status.PROVED)

    for engine in (CUTOFF, QUANTIFIED):
        monkeypatch.setitem(proving.ENGINES, engine, killed)
    assert main(["prove", SYSTEM, "--quiet"]) == 3
    assert "its process died" in capsys.readouterr().out
    assert recall(cache_folder(), load(SYSTEM)) == {}


@pytest.mark.parametrize("garbage", [b"", b"[]", b'{"agreement": 3}', b"\xff\0", b"x" * 4096])
def test_damaged_records_are_proved_again(garbage: bytes) -> None:
    assert main(["prove", SYSTEM, "--quiet"]) == 0
    for file in cache_folder().glob("*"):
        file.write_bytes(garbage)
    assert recall(cache_folder(), load(SYSTEM)) == {}
    assert KeptProofs(cache_folder()).among(["any"]) == frozenset()
    assert main(["prove", SYSTEM, "--timeout", "29", "--quiet"]) == 0
    assert recall(cache_folder(), load(SYSTEM))


def test_another_version_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    system = load(SYSTEM)
    for module, name in ((identity, "code"), (digests, "code"), (digests, "solver_version")):
        names = digests.name_of_system(system)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda: "another")
            assert (digests.name_of_system(system) == names) == (module is identity)


def test_a_full_disk_costs_no_verdict_and_makes_none() -> None:
    """Nothing can be written: the proof is whole, and the next check knows nothing of it."""
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    def run(*arguments: str, limit: bool) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pdproto.cli.main", *arguments, "--quiet"], text=True,
            capture_output=True, check=False, preexec_fn=full if limit else None)

    done = run("prove", SYSTEM, limit=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "proved    agreement" in done.stdout
    assert "every size" not in run("check", SYSTEM, limit=False).stdout


def test_writers_at_one_time_lose_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins between the reading and the writing of the first."""
    system, begun = load(SYSTEM), list[Thread]()

    def proved(name: str) -> Any:
        one = SimpleNamespace(system=system, claims=(), proved_words=lambda _: "proved")
        return SimpleNamespace(one=one, proved={name})

    def during(folder: Path, of: System) -> Mapping[str, str]:
        known = recall(folder, of)
        if not begun:
            begun.append(Thread(target=assurance.remember, args=(folder, proved(names[1]))))
            begun[0].start()
            begun[0].join(0.3)
        return known

    names = [claim.name for claim in system.properties][:2]
    monkeypatch.setattr(assurance, "recall", during)
    assurance.remember(tmp_path, proved(names[0]))
    begun[0].join(30.0)
    assert recall(tmp_path, system).keys() == {*names}


def test_processes_that_write_one_record_leave_it_whole() -> None:
    def prove_one(name: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "pdproto.cli.main", "prove", SYSTEM, "--property", name,
             "--quiet"], stdout=subprocess.DEVNULL, check=False).returncode

    with ThreadPoolExecutor(2) as threads:
        assert set(threads.map(prove_one, ["agreement", "no_row_is_busy"] * 2)) == {0}
    known = recall(cache_folder(), load(SYSTEM))
    assert {"agreement", "no_row_is_busy"} <= known.keys()
    assert all(text.startswith("proved for every size") for text in known.values())
    assert (cache_folder() / FILE).exists()
