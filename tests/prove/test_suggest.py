"""Suggested lemmas: clauses that hold in small instances prove a property that needs some."""

import json
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pdproto.check.prove import guesses, sieve
from pdproto.check.prove import suggest as suggesting
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.suggest import Suggestion, suggest
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.language import Always
from pdproto.spec.language.formula import negated
from tests.oracle.systems import draw
from tests.prove import token_ring

Output = pytest.CaptureFixture[str]

LIMIT_S = 30.0


@pytest.mark.parametrize("name", [
    "two-phase-commit",
    pytest.param("lock-server", marks=pytest.mark.nightly),
    pytest.param("pdproto.spec.handoff.abort:SYSTEM", marks=pytest.mark.nightly),
])
def test_it_is_proved_unaided(name: str) -> None:
    """What is suggested is proved again, from the beginning and with faults."""
    system = load(name)
    found = suggest(system, ProofSettings(timeout_s=LIMIT_S))
    assert found.proved
    lemmas = [Always(f"lemma_{n}", formula) for n, formula in enumerate(found.lemmas)]
    owed = obligations(system, claims(system, lemmas))
    proof = prove(system, owed, ProofSettings(timeout_s=LIMIT_S, workers=2))
    assert {proof.status(obligation) for obligation in owed} == {Status.PROVED}
    assert len(found.lemmas) <= found.kept <= found.true


def test_no_suggested_lemma_can_be_left_out() -> None:
    """Of many that say nearly the same, a reader gets as few as possible."""
    system = load("two-phase-commit")
    found = suggest(system, ProofSettings(timeout_s=LIMIT_S))
    lemmas = [Always(f"lemma_{n}", formula) for n, formula in enumerate(found.lemmas)]
    for one in lemmas:
        rest = [lemma for lemma in lemmas if lemma is not one]
        owed = obligations(system, claims(system, rest))
        proof = prove(system, owed, ProofSettings(timeout_s=LIMIT_S))
        assert {proof.status(obligation) for obligation in owed} != {Status.PROVED}, one


def pasted(text: str, folder: Path, capsys: Output, *options: str) -> tuple[int, dict[str, Any]]:
    """What is suggested for a spec is appended to it, and proved: the status and the JSON of both.
    """
    spec = folder / "pasted.py"
    spec.write_text(text, encoding="utf-8")
    asked = ["prove", f"{spec}:SYSTEM", "--quiet", "--no-cache", "--json", "-", *options]
    status = main([*asked, "--suggest"])
    told = json.loads(capsys.readouterr().out)
    spec.write_text(f"{text}\n{told['text']}", encoding="utf-8")
    main(asked)
    proved = json.loads(capsys.readouterr().out)
    return status, {"told": told, "verdicts": proved["verdicts"]}


def imported(module: str) -> str:
    return f"from pdproto.spec.language import *\nfrom {module} import *\n"


@pytest.mark.parametrize(("text", "status"), [
    (imported("pdproto.spec.examples.two_phase_commit"), 0),
    (imported("tests.prove.token_ring"), 0),
    pytest.param(imported("tests.prove.token_ring") + "SYSTEM = UNMARKED", 3,
                 marks=pytest.mark.nightly),
    pytest.param(imported("tests.prove.quorums"), 0, marks=pytest.mark.nightly),
    (imported("tests.prove.test_consequences") + "SYSTEM = TANKS", 0),
    pytest.param(imported("tests.prove.test_consequences") + "SYSTEM = WRONG", 3,
                 marks=pytest.mark.nightly),
    pytest.param(imported("pdproto.spec.examples.lock_server"), 0, marks=pytest.mark.nightly),
    pytest.param(imported("pdproto.spec.examples.lock_server")
                 + "from pdproto.spec.examples.lock_server_broken import SYSTEM", 3,
                 marks=pytest.mark.nightly),
    pytest.param(imported("pdproto.spec.handoff.abort"), 0, marks=pytest.mark.nightly),
], ids=["two-phase", "ring", "ring-broken", "quorums", "tanks", "tanks-wrong", "lock",
        "lock-broken", "abort"])
def test_what_is_suggested_is_proved_as_it_says(
    text: str, status: int, tmp_path: Path, capsys: Output
) -> None:
    """Each clause that is printed is proved, and so are the properties, but for those it names."""
    found, answers = pasted(text, tmp_path, capsys, "--timeout", "5")
    told, verdicts = answers["told"], answers["verdicts"]
    assert found == status
    assert told["proved"] == (status == 0)
    open_ones = {name for name, verdict in verdicts.items() if verdict != "proved"}
    assert open_ones == {*told["unproved"]}


def test_a_clause_must_hold_at_the_start_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instances that give the guesses have two nodes: with one node, it is first and last."""
    shapes = guesses.shapes
    monkeypatch.setattr(suggesting, "shapes", lambda system: islice(shapes(system), 2))
    found = suggest(token_ring.UNMARKED, ProofSettings(timeout_s=LIMIT_S))
    assert found.inductive
    assert not [one for one in map(str, found.inductive) if "first(" in one and "last(" in one]


@pytest.mark.parametrize("proved", [True, False])
def test_the_prover_has_the_last_word(*, proved: bool) -> None:
    """Whatever the search believes: a clause that fails at the start is not told as inductive, and
    what it was to prove is told as unproved.
    """
    system = load("two-phase-commit")
    lasting = next(c.claim for c in system.properties if isinstance(c, Always))
    believed = Suggestion((negated(lasting),), proved, 1, 1, (negated(lasting),), ())
    told = suggesting._as_proved(system, believed, ProofSettings(timeout_s=LIMIT_S))
    assert (told.inductive, told.lemmas, told.proved) == ((), (), False)
    assert "agreement" in told.unproved


@pytest.mark.parametrize(("where", "name", "limit", "why"), [
    (sieve, "CLAUSES_MAX", 10, "its instances are more than 10 clauses"),
    (sieve, "CLAUSES_MAX", 200_000, "the questions have more than 200,000 clauses together"),
    (guesses, "LOOKS_MAX", 10, "22 literals of a small instance; 10 is the limit"),
    (suggesting, "OBLIGATIONS_MAX", 10, "51 clauses hold in small instances, which makes 408"),
])
def test_a_search_that_would_take_all_memory_is_not_made(
    where: ModuleType, name: str, limit: int, why: str, monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    monkeypatch.setattr(where, name, limit)
    asked = ["prove", "two-phase-commit", "--suggest", "--quiet"]
    assert main([*asked, "--json", "-"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["stopped"].startswith(f"one variable of each sort: {why}")
    assert "agreement" in told["unproved"]
    assert main(asked) == 3
    assert f"unknown   no suggestion with {told['stopped']}" in capsys.readouterr().out


def test_a_row_whose_questions_alone_would_take_all_memory() -> None:
    """Seen red: it took more than 3 GiB."""
    drawn, _ = draw(521_787_002)
    found = suggest(ProofSubject(drawn, (), {}).without_counts().system,
                    ProofSettings(timeout_s=LIMIT_S))
    assert not found.proved
    assert "are more than" in found.stopped


@pytest.mark.nightly
def test_a_false_property_is_not_proved() -> None:
    """The lock server with a clock: no clause can save it, and none pretends to."""
    assert not suggest(load("lock-server-broken"), ProofSettings(timeout_s=LIMIT_S)).proved
