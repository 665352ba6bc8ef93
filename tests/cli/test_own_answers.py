"""What the verbs answer leads on: partial answers, reasons, traces, and text that can be pasted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.__main__ import main
from lab.designs import EVERY
from pdproto.check import cache
from pdproto.check.checking import check
from pdproto.check.prove import proving
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.proving import ProofSettings
from pdproto.check.prove.suggest import Suggestion, pasteable, suggest
from pdproto.spec import language
from pdproto.spec.examples import lock_server, two_phase_commit

Output = pytest.CaptureFixture[str]
PROVE = ["prove", "two-phase-commit", "--quiet", "--no-cache"]

STUCK = '''"""A worker does one thing, and then nothing more."""
from pdproto.spec.language import *
class Worker(Sort):
    """One that works."""
class Phase(State):
    IDLE = auto()
    DONE = auto()
w = Worker("w")
worker = Machine("worker", w)
phase = worker.function("phase", Phase)
SYSTEM = System("once", "Once.", tables=(
    Table(worker, state=phase, rows=(Row("work", at=Phase.IDLE, to=Phase.DONE),)),
), configurations={"default": Configuration({Worker: 1})})
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestTargets:
    def test_no_folder_is_made(self, folder: Path, capsys: Output) -> None:
        """A mistyped path is told before the search, and leaves nothing behind."""
        assert main(["check", "two-phase-commit", "--html", "reprots/page.html"]) == 2
        assert f"there is no folder {folder}/reprots" in capsys.readouterr().err
        assert list(folder.iterdir()) == []


def test_one_state_is_stuck(folder: Path, capsys: Output) -> None:
    (folder / "once.py").write_text(STUCK, encoding="utf-8")
    assert main(["check", "once.py:SYSTEM", "--quiet"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "1 state is stuck" in out
    assert "1 states" not in out


class TestReasons:
    """Whatever is unknown has its reason."""

    def test_an_answer_that_is_unknown(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Output
    ) -> None:
        def never(_: Any, found: list[Any], __: float) -> Iterator[Judgement]:
            return (Judgement(Status.UNKNOWN, "the solver gave up") for _ in found)

        monkeypatch.setitem(proving.ENGINES, "cutoff", never)
        assert main([*PROVE, "--engine", "cutoff"]) == 3
        lines = capsys.readouterr().out.splitlines()
        (answers,) = [line for line in lines if "answers_of_coordinator" in line]
        assert answers.startswith("  unknown ")
        assert answers.endswith("(the solver gave up)")

    def test_engines_that_contradict_each_other(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Output
    ) -> None:
        def failed(_: Any, found: list[Any], __: float) -> Iterator[Judgement]:
            return (Judgement(Status.FAILED) for _ in found)

        monkeypatch.setitem(proving.ENGINES, "quantified", failed)
        assert main([*PROVE, "--engine", "both"]) == 3
        out = capsys.readouterr().out
        assert "(the engines contradict each other: cutoff: proved, quantified: failed)" in out


class TestInterrupts:
    """Ctrl-C leaves what has been answered, in the table and as JSON."""

    def test_of_a_proof(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output
    ) -> None:
        real = proving._run

        def interrupted(*arguments: Any) -> Iterator[proving.EngineAnswer]:
            yield next(real(*arguments))
            raise KeyboardInterrupt

        monkeypatch.setattr(proving, "_run", interrupted)
        target = tmp_path / "proof.json"
        assert main([*PROVE, "--json", str(target)]) == 3
        out = capsys.readouterr().out
        assert "interrupted: obligations without an answer are unknown" in out
        result = json.loads(target.read_text())
        assert result["proved"] >= 1
        assert result["unknown"]
        assert result["interrupted"] is True

    def test_of_the_defects(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output
    ) -> None:
        asked = 0

        def interrupted(*arguments: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked > 1:
                raise KeyboardInterrupt
            return check(*arguments)

        monkeypatch.setattr(cache, "check", interrupted)
        target = tmp_path / "defects.json"
        assert main(["bugs", "--quiet", "--json", str(target)]) == 3
        out, err = capsys.readouterr()
        told = json.loads(target.read_text())
        assert f"1 of {len(told)} defects found; not decided: {told[1]['id']}, " in out
        assert "incomplete: 1 of" in err
        assert [one["id"] for one in told if one["refuted"] is not None] == [told[0]["id"]]
        assert len(told) == len(EVERY)


class TestSuggestions:
    """Text for a spec, whether or not it suffices."""

    def test_sufficient_lemmas_can_be_pasted(self, folder: Path, capsys: Output) -> None:
        assert main(["prove", "two-phase-commit", "--suggest", "--quiet"]) == 0
        out = capsys.readouterr().out
        assert "not proved by" not in out
        text = out.partition("to put beside the system:\n")[2]
        names = "Decision, Participant, Vote, abort, commit, decision, heard, prepared, vote"
        lemmas = f"from pdproto.spec.examples.two_phase_commit import {names}\n{text}"
        (folder / "lemmas.py").write_text(lemmas, encoding="utf-8")
        assert "LEMMAS = (" in text
        assert main([*PROVE, "--lemmas", "lemmas.py"]) == 0
        assert "proved    lemma lemma_1" in capsys.readouterr().out

    def test_insufficient_lemmas_are_shown(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Output
    ) -> None:
        clauses = (two_phase_commit.heard(two_phase_commit.p),)
        found = Suggestion((), False, 10, 5, clauses, ("agreement",))
        monkeypatch.setattr("pdproto.cli.prove.suggest", lambda *_: found)
        assert main(["prove", "two-phase-commit", "--suggest", "--quiet"]) == 3
        out = capsys.readouterr().out
        assert "not proved by 1 inductive clauses of 5" in out
        assert "It needs no lemma" not in out
        assert "unproved  agreement" in out
        assert 'Always("lemma_1", heard(p))' in out

    def test_a_system_that_needs_none_is_told(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Output
    ) -> None:
        found = Suggestion((), True, 10, 5, (), ())
        monkeypatch.setattr("pdproto.cli.prove.suggest", lambda *_: found)
        assert main(["prove", "two-phase-commit", "--suggest", "--quiet"]) == 0
        out = capsys.readouterr().out
        assert "# It needs no lemma" in out
        assert "to put beside" not in out

    @pytest.mark.nightly
    def test_the_broken_lock_keeps_some(self) -> None:
        found = suggest(lock_server.SYSTEM, ProofSettings(timeout_s=30.0))
        assert found.proved
        assert not found.unproved
        assert {*found.lemmas} <= {*found.inductive}
        namespace = {**vars(language), **vars(lock_server)}
        exec(pasteable(found.lemmas), namespace)  # noqa: S102 - our own text
        assert [str(one.claim) for one in namespace["LEMMAS"]] == [*map(str, found.lemmas)]


def test_a_violation_before_any_mutation_is_drawn(capsys: Output) -> None:
    assert main(["mutate", "lock-server-broken", "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert "mutual_exclusion is violated before anything is mutated" in err
    assert "mutual_exclusion violated for c=c0, d=c1 after 7 steps" in out
    assert "give(c0, r0)" in out
