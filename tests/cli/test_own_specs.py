"""A new user's own protocol: the verbs take it as it comes, and what they say leads on."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.check.lint import lint, small
from pdproto.check.mutate.trials import searches, trials_of
from pdproto.check.prove.proving import ProofSettings
from pdproto.check.prove.suggest import suggest
from pdproto.check.rigid import TopologyError, interpretations
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.language import Configuration, Rigid, Sizes, System, Tuples
from tests.cli import own_specs
from tests.cli.own_specs import Process
from tests.prove import quorums

Output = pytest.CaptureFixture[str]
SPECS = "tests.cli.own_specs"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with the specs in a file of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    path = Path("mine") / "page.py"
    shutil.copy(own_specs.__file__, path)
    # Another test's page has the same name.
    monkeypatch.delitem(sys.modules, "page", raising=False)
    before = set(sys.modules)
    yield path
    for name in set(sys.modules) - before:
        if name in ("page", "lemmas"):
            del sys.modules[name]


class TestGivenTopologies:
    """`given=` that knows some sizes only."""

    def test_lint_looks_at_sizes_that_it_knows(self, capsys: Output) -> None:
        assert main(["lint", f"{SPECS}:RING"]) == 0
        assert capsys.readouterr().out.endswith(", at Process=3\n")

    @pytest.mark.parametrize("asked", [["--size", "Process=4"], ["--configuration", "default"]])
    def test_lint_looks_at_the_sizes_that_are_asked_for(
        self, asked: list[str], capsys: Output
    ) -> None:
        assert main(["lint", f"{SPECS}:RING", *asked]) == 0
        assert f"at Process={'4' if '--size' in asked else '3'}" in capsys.readouterr().out

    def test_an_error_of_the_function_is_one_line(self, capsys: Output) -> None:
        assert main(["lint", f"{SPECS}:RING", "--size", "Process=2"]) == 2
        err = capsys.readouterr().err
        assert "`given=` of following(Process, Process) raised KeyError: 2" in err
        assert "own_specs.py:" in err
        assert "Traceback" not in err

    def test_it_advises_where_no_size_is_known(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Output
    ) -> None:
        monkeypatch.setattr(own_specs, "KNOWN_SIZES", {})
        assert main(["lint", f"{SPECS}:RING"]) == 2
        assert "with --size or --configuration" in capsys.readouterr().err

    def test_lemmas_are_looked_for_at_sizes_that_it_knows(self) -> None:
        assert suggest(own_specs.RING, ProofSettings(timeout_s=10.0)).proved

    def test_its_mutants_are_linted_at_sizes_that_it_knows(self) -> None:
        ring = own_specs.RING
        trials = trials_of([ring], searches(ring), {})
        assert trials.remarks == {"ring": frozenset()}

    def test_an_interpretation_against_an_axiom_is_told(self) -> None:
        """At two nodes, two quorums of one node each do not meet."""
        sizes = {quorums.Node: 2, quorums.Quorum: 2, quorums.Value: 1}
        with pytest.raises(TopologyError) as error:
            list(interpretations(quorums.SYSTEM, sizes, Configuration(sizes)))
        assert "`given=` of member names tuples with which none satisfies" in str(error.value)
        assert "quorums_meet: for all q, r: for some n: member(q, n)" in str(error.value)
        assert "at Quorum=2" in str(error.value) or "Quorum=2" in str(error.value)

    def test_axioms_that_no_interpretation_satisfies_are_told(self) -> None:
        free = {quorums.member: _nothing}
        sizes = {quorums.Node: 2, quorums.Quorum: 1, quorums.Value: 1}
        with pytest.raises(TopologyError, match=r"satisfies quorums_meet: "):
            list(interpretations(quorums.SYSTEM, sizes, Configuration(sizes, given=free)))
        assert lint(quorums.SYSTEM, small(quorums.SYSTEM)) is not None


def _nothing(_: Sizes) -> Tuples:
    return set()


class TestWitnesses:
    """A remark says in which situation, all of it."""

    def test_a_hole_names_the_message_and_the_topology(self, capsys: Output) -> None:
        assert main(["lint", f"{SPECS}:MARKERS"]) == 1
        out = capsys.readouterr().out
        assert "no row for marker(p, q, n) (where q = p0, p = p0, n = n0, channel is empty)" in out

    def test_an_overlap_names_both_rows(self) -> None:
        (remark,) = [r for r in lint(own_specs.ONE_ANSWER, small(own_specs.ONE_ANSWER))
                     if r.rule == "determinism"]
        assert {"learn(p0)", "ignore_answer(p0)", "turn(p0) = asked"} <= {*remark.witness}


class TestLemmas:
    """What is proved excuses what lint cannot see."""

    def test_lint_takes_those_beside_the_system(self, capsys: Output) -> None:
        assert main(["lint", f"{SPECS}:ONE_ANSWER"]) == 0
        out = capsys.readouterr().out
        assert "0 errors" not in out
        assert ", where 1 lemma holds, which `pdproto prove` must show" in out

    def test_prove_takes_them_too(self, capsys: Output) -> None:
        assert main(["prove", f"{SPECS}:ONE_ANSWER", "--quiet", "--no-cache"]) == 0
        assert "proved    lemma asked_is_asked" in capsys.readouterr().out

    def test_lemmas_of_another_system_stay_away(self, capsys: Output) -> None:
        assert main(["prove", f"{SPECS}:RING", "--quiet", "--no-cache"]) == 0
        assert "lemma" not in capsys.readouterr().out

    def test_lint_says_the_same_as_prove_without_them(self, capsys: Output) -> None:
        """With a lemma that says nothing of it, both find the ambiguity."""
        found = lint(own_specs.ONE_ANSWER, small(own_specs.ONE_ANSWER), own_specs.NOTHING)
        assert [r.rule for r in found if r.severity == "error"] == ["totality", "determinism"]
        capsys.readouterr()

    @pytest.mark.parametrize("verb", ["lint", "prove"])
    def test_a_path_is_taken_as_for_the_system(
        self, verb: str, page: Path, capsys: Output
    ) -> None:
        lemmas = page.with_name("lemmas.py")
        lemmas.write_text('"""What is proved."""\nfrom page import LEMMAS\n')
        quiet = ["--quiet", "--no-cache"] if verb == "prove" else []
        assert main([verb, f"{page}:ONE_ANSWER", "--lemmas", str(lemmas), *quiet]) == 0
        assert "1 lemma " in (out := capsys.readouterr().out) or "lemma asked_is_asked" in out

    def test_the_file_of_the_system_itself_is_taken(self, page: Path) -> None:
        arguments = ["prove", f"{page}:ONE_ANSWER", "--quiet", "--no-cache", "--lemmas", str(page)]
        assert main(arguments) == 0

    def test_a_path_to_nothing_is_told(self, page: Path, capsys: Output) -> None:
        assert main(["prove", f"{page}:ONE_ANSWER", "--lemmas", "mine/x.py"]) == 2
        assert "--lemmas mine/x.py: mine/x.py does not exist" in capsys.readouterr().err

    def test_lemmas_of_a_second_import_are_told(self, page: Path, capsys: Output) -> None:
        """Imported under two names, a spec declares all of its symbols twice."""
        (page.parent / "lemmas.py").write_text("from tests.cli.own_specs import LEMMAS\n")
        arguments = ["prove", f"{page}:ONE_ANSWER", "--lemmas", "mine/lemmas.py"]
        assert main(arguments) == 2
        assert "the spec has been imported twice" in capsys.readouterr().err

    def test_lemmas_of_another_system_are_refused_by_name(self, capsys: Output) -> None:
        arguments = ["prove", f"{SPECS}:RING", "--lemmas", "tests.prove.quorums"]
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert "lemma 'one_vote_each'" in err
        assert "mentions vote, which ring does not have" in err


@pytest.mark.parametrize(("verb", "wrong", "meant"), [
    (["chekc"], "chekc", "check"),
    (["check", "two-phase-comit"], "two-phase-comit", "two-phase-commit"),
    (["check", f"{SPECS}:RIGN"], "RIGN", "RING"),
    (["check", "two-phase-commit", "--propery", "agreement"], "--propery", "--property"),
    (["check", "two-phase-commit", "--property", "agrement"], "agrement", "agreement"),
    (["check", "two-phase-commit", "--size", "Participants=2"], "Participants", "Participant"),
    (["check", "two-phase-commit", "--configuration", "defualt"], "defualt", "default"),
    (["check", "transfer", "--faults", "losssy"], "losssy", "lossy"),
    (["prove", "two-phase-commit", "--property", "agreemnt"], "agreemnt", "agreement"),
    (["prove", "two-phase-commit", "--engine", "quantifed"], "quantifed", "quantified"),
], ids=str)
def test_a_mistyped_name_is_guessed(
    verb: list[str], wrong: str, meant: str, capsys: Output
) -> None:
    assert main(verb) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert wrong in err
    assert f"perhaps {meant}" in err


def test_the_specs_agree_with_their_names() -> None:
    systems: list[System] = [load(f"{SPECS}:{name}") for name in ("RING", "MARKERS", "ONE_ANSWER")]
    assert [system.sorts[0] for system in systems] == [Process] * 3
    assert isinstance(systems[0].rigids[0], Rigid)
