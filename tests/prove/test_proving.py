"""Both engines agree, other solvers confirm, and `pdproto prove` says so."""

import json
from collections.abc import Iterator
from pathlib import Path

import cvc5
import pytest

from pdproto.check.prove import proving
from pdproto.check.prove.certificates import certificates, dimacs, smt
from pdproto.check.prove.examination import without
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.sat import Answer, Solver
from pdproto.cli.main import main
from pdproto.cli.systems import subject
from pdproto.spec.examples.two_phase_commit import SYSTEM as TWO_PHASE_COMMIT
from pdproto.spec.examples.two_phase_commit import Decision, Vote, p, vote
from pdproto.spec.language import Retarget, SpecError, System, edited
from pdproto.spec.language.properties import Always
from proofs import standing

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("two-phase-commit", "lock-server")
BOTH = tuple(proving.ENGINES)
BUSY = edited(TWO_PHASE_COMMIT, "busy", Retarget("decide_commit", to=Decision.OPEN))


def confirmed(text: str) -> bool:
    """Whether cvc5 finds that the assertions cannot be satisfied."""
    solver = cvc5.Solver()
    solver.setOption("tlimit", "20000")
    solver.setOption("enum-inst", "true")  # without it some quantified questions stay open
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols = parser.getSymbolManager()
    answers = []
    while not (command := parser.nextCommand()).isNull():
        answers.append(str(command.invoke(solver, symbols)).strip())
    return "unsat" in answers


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_engines_prove_the_examples(name: str) -> None:
    standing.is_proved(name, engines=BOTH)


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_engines_fail_without_the_lemmas(name: str) -> None:
    """Without lemmas they fail at the same rows."""
    one = subject(name)
    found = obligations(one.system, one.claims[: len(one.claims) - len(one.lemmas)])
    bare = [without_lemmas(o) for o in found]
    proof = prove(one.system, bare, ProofSettings(engines=BOTH, workers=2))
    statuses = {proof.status(o) for o in bare}
    assert statuses == {Status.PROVED, Status.FAILED}


def without_lemmas(obligation: Obligation) -> Obligation:
    for claim in obligation.sequent.assumed:
        if claim.is_lemma:
            (obligation,) = without([obligation], claim.name)
    return obligation


def propositional(text: str) -> str:
    """A DIMACS file as SMT-LIB 2, for a solver that reads no other."""
    header, *lines = text.splitlines()
    count = int(header.split()[2])
    declared = [f"(declare-const v{n} Bool)" for n in range(1, count + 1)]
    clauses = [
        "(assert (or false " + " ".join(
            f"v{n}" if n > 0 else f"(not v{-n})" for n in map(int, line.split()[:-1])) + "))"
        for line in lines
    ]
    return "\n".join(["(set-logic QF_UF)", *declared, *clauses, "(check-sat)"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_cvc5_confirms_every_obligation(name: str) -> None:
    one, found = standing.all_of(name)
    for obligation in found:
        assert confirmed(propositional(dimacs(one.system, obligation))), obligation.name
        assert confirmed(smt(one.system, obligation)), obligation.name


def test_certificates_name_their_question() -> None:
    one, found = standing.all_of("two-phase-commit")
    clauses, quantified = certificates(one.system, found[:1])
    assert (clauses.name, quantified.name) == (
        "agreement-the-start.cnf", "agreement-the-start.smt2")
    text = clauses.text.split("\n", 1)[1]
    assert Solver(text, timeout_s=10).ask([]) is Answer.UNSATISFIABLE
    assert "(check-sat)" in quantified.text


def test_a_counterexample_reads_as_a_step() -> None:
    """Without its lemmas a participant may be told to commit after another has given up."""
    one = subject("two-phase-commit")
    (broken,) = [
        without_lemmas(o) for o in obligations(one.system, one.claims)
        if o.name == "agreement at give_up"
    ]
    found = counterexample(one.system, broken, 10)
    assert found is not None
    (step,) = found.trace.steps
    assert step.row == "give_up"
    assert {(c.variable, c.after) for c in found.trace.start} == {("vote(p0)", "committed")} or {
        ("vote(p1)", "committed")} == {(c.variable, c.after) for c in found.trace.start}
    assert [(c.before, c.after) for c in step.changes] == [("working", "aborted")]


def test_a_row_that_sends_unasked_for_ever_is_found() -> None:
    """A coordinator that stays where it is would tell its decision again and again."""
    found = obligations(BUSY, claims(BUSY), wanted=("no_row_is_busy",))
    assert [o.scope for o in found] == ["decide_commit"]
    broken = prove(BUSY, found, ProofSettings(engines=BOTH))
    assert [broken.status(o) for o in found] == [Status.FAILED]


def test_a_proof_is_remembered_until_its_question_changes(tmp_path: Path) -> None:
    one, found = standing.all_of("two-phase-commit")
    settings = ProofSettings(cache_folder=tmp_path)
    first, second = (prove(one.system, found, settings) for _ in range(2))
    assert not any(outcome.cached for outcome in first.outcomes)
    assert all(outcome.cached for outcome in second.outcomes)
    other = prove(one.system, without(found, "heard_has_been_said"), settings)
    assert not any(o.cached for o in other.outcomes if o.obligation.row is not None)


def test_a_solver_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(_system: System, group: object, _limit: float) -> Iterator[Judgement]:
        yield Judgement(Status.PROVED)
        while group:
            pass

    monkeypatch.setitem(proving.ENGINES, "cutoff", stuck)
    monkeypatch.setattr(proving, "GRACE_S", 3.0)  # in which a busy machine starts a process
    one, found = standing.all_of("two-phase-commit")
    at_prepare = [o for o in found if o.scope == "prepare"]
    proof = prove(one.system, at_prepare, ProofSettings(timeout_s=0.1))
    assert [proof.status(o) for o in at_prepare] == [
        Status.PROVED, *[Status.UNKNOWN] * (len(at_prepare) - 1)]


def test_a_lemma_may_not_have_the_name_of_a_property() -> None:
    one = subject("two-phase-commit")
    with pytest.raises(SpecError, match="another claim has this name"):
        claims(one.system, [Always("agreement", vote(p) == Vote.WORKING)])


def test_the_command_line_proves_and_prints_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    arguments = ["prove", "two-phase-commit", "--no-cache", "--quiet"]
    assert main([*arguments, "--json", str(target), "--export", str(tmp_path / "all")]) == 0
    result = json.loads(target.read_text())
    assert result["system"] == "two-phase-commit"
    assert result["obligations"] == result["proved"] == 39
    assert result["failed"] == result["unknown"] == []
    assert len(list((tmp_path / "all").glob("*.cnf"))) == 39
    assert "proved    agreement: for all sizes" in capsys.readouterr().out


def test_the_command_line_shows_the_failing_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "lock-server-broken", "--no-cache", "--quiet", "--bmc", "7"]) == 1
    told = capsys.readouterr().out
    assert "mutual_exclusion at enter is not inductive" in told
    assert "a run of 7 steps violates it: this is a defect" in told
    false = ("the claim is false", "in the state at the start", "does not follow", "is not met",
             "is too weak", "a lemma is missing", "no run of up to")
    of_the_claim = told.split("mutual_exclusion at enter")[1].split("no_peer_is_at_fault")[0]
    assert [one for one in false if one in of_the_claim] == []


@pytest.mark.parametrize(("system", "name", "words", "row"), [
    ("lock-server-broken", "no_peer_is_at_fault", "no row that rejects is ever enabled", "Reject("),
    (f"{__name__}:BUSY", "no_row_is_busy", "no row without a trigger sends in a state", "Row("),
    ("tests.prove.test_axioms:BACK", "phase_edges", "first -> second; second -> nothing", "phase"),
    pytest.param("tests.check.test_refines:HASTY", "consensus", "each step is one of consensus",
                 "Refines(", marks=pytest.mark.nightly),
])
def test_a_claim_without_a_formula_is_printed_in_words_with_its_line(
    system: str, name: str, words: str, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line is that of the row, where the claim is that no such row fires."""
    assert main(["prove", system, "--property", name, "--no-cache", "--quiet"]) == 1
    told = capsys.readouterr().out.partition(f"\n{name} at ")[2]
    _, claim, place, *_ = told.splitlines()
    assert claim.startswith(words)
    path, _, line = place.rpartition(":")
    assert row in (ROOT / path).read_text().splitlines()[int(line) - 1]


@pytest.mark.nightly
def test_a_missing_lemma_has_a_file_and_a_claim_that_is_false_has_none(
    capsys: pytest.CaptureFixture[str]
) -> None:
    where = "a lemma is an Always in LEMMAS of "
    for steps, is_told in (((), True), (("--bmc", "7"), False)):
        assert main(["prove", "lock-server-broken", "--property", "mutual_exclusion", "--no-cache",
                     "--quiet", *steps]) == 1
        assert (where in capsys.readouterr().out) == is_told


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_row_that_takes_long_is_told_unless_it_shall_be_quiet(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proving, "SLOW_S", 0.0)
    assert main(["prove", "two-phase-commit", "--property", "agreement", "--no-cache",
                 *options]) == 0
    assert ("pdproto: slow: " in capsys.readouterr().err) == (not options)


def test_an_unknown_property_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "two-phase-commit", "--property", "nonsense"]) == 2
    assert "no safety property 'nonsense'" in capsys.readouterr().err
