"""The declarations in a file of proofs/: a claim, and the questions that every proof must answer.

    CLAIM = Safety("transfer", defects=(Known("B22", row="abort_receive"),))

conftest.py makes a test of each question: is every obligation met, for all sizes (`holds`); can
every row fire, or does every property pend (`something`); does each lemma carry another claim's
proof (`lemmas`); does the proof notice each defect (`defect`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED
from pdproto.cli.systems import load, subject
from pdproto.spec.language import edited
from pdproto.spec.language.edit import RowEdit
from pdproto.spec.language.properties import Always
from proofs import draining, standing


@dataclass(frozen=True, slots=True)
class Question:
    """One test. ask: raises AssertionError if the answer is no. slow: it takes several seconds.
    nightly: it is asked by `make test-all` only.
    """

    name: str
    ask: Callable[[], None]
    slow: bool = False
    nightly: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A defective system of spec/bugs, by its id. row: the row that the proof must blame."""

    bug: str
    row: str


@dataclass(frozen=True, slots=True)
class Safety:
    """Every property, derived promise and lemma of the system holds in every state of every size.

    defects: systems that must not be proved; each edit is known by its row. whole: also that every
    trigger has one answer, and all that has a ranking. proved_in: the systems that this is shown
    of, if not `system` alone. impossible: rows that cannot fire in any state. bridge: the lemmas
    that must be used (none: every lemma); unasked: the question is left out. slow: the questions
    that take several seconds. Where it is slow the question about lemmas is asked at night, because
    an idle lemma makes no proof wrong, and this proves the system once more. So is `something`
    where any question is slow: what is proved holds in each state that is reached, and the explorer
    fires the rows in such states by day. nightly: more of them that are asked at night, by name.
    engine: the one that proves it. explored: small sizes show that every row can fire, and which
    claim a defect breaks, where the solver takes too long.
    helped: in a whole proof Z3 with quantifiers decides the obligations that the cut-off leaves
    open. ranked: the lemmas that no safety claim needs, but a ranking.
    """

    system: str
    defects: tuple[Known | RowEdit, ...]
    whole: bool = False
    proved_in: tuple[str, ...] = ()
    impossible: tuple[str, ...] = ()
    bridge: tuple[Always, ...] = ()
    unasked: bool = False
    slow: tuple[str, ...] = ("lemmas",)
    nightly: tuple[str, ...] = ()
    engine: str = CUTOFF
    explored: bool = False
    helped: bool = False
    ranked: tuple[str, ...] = ()

    def questions(self) -> Iterator[Question]:
        """The four questions, some of them about several systems or defects."""
        show = partial(standing.is_wholly_proved, helped=self.helped) if self.whole else partial(
            standing.is_proved, engines=(self.engine,))
        for name in self.proved_in or (self.system,):
            yield self._question("holds", partial(show, name), name)
        yield self._about_something()
        if self.bridge:
            yield self._at_night("lemmas", partial(
                standing.has_no_idle_lemma_among, self.system, self.bridge))
        elif not self.unasked:
            engines = (self.engine, QUANTIFIED) if self.helped else (self.engine,)
            yield self._at_night("lemmas", partial(
                standing.has_no_idle_lemma, self.system, engines=engines, ranked=self.ranked))
        for defect in self.defects:
            yield self._question("defect", partial(self._notice, defect), defect.row)

    def _question(self, name: str, ask: Callable[[], None], of: str = "") -> Question:
        full = f"{name}-{of}" if of else name
        return Question(full, ask, name in self.slow, full in self.nightly)

    def _about_something(self) -> Question:
        if self.explored:
            return self._question("something", partial(
                standing.is_about_what_is_explored, self.system))
        asked = self._question("something", partial(
            standing.is_about_something, self.system, self.impossible))
        return replace(asked, nightly=bool(self.slow))

    def _at_night(self, name: str, ask: Callable[[], None]) -> Question:
        """Asked by `make test` too, unless it is slow."""
        return replace(self._question(name, ask), nightly=name in self.slow)

    def _notice(self, defect: Known | RowEdit) -> None:
        broken = standing.defect(defect.bug) if isinstance(defect, Known) else edited(
            load(self.system), f"{self.system}-defective", defect)
        if self.explored:
            standing.is_refuted_where_explored(self.system, broken)
            return
        standing.is_refuted(self.system, broken, defect.row, self.engine)


@dataclass(frozen=True, slots=True)
class Pending:
    """A property that pends for ever in some system without a row.

    unfair: the row is there, but need not fire. explored: small sizes show it, where the question
    is too large to test its counterexample.
    """

    row: str
    leads_to: str
    unfair: bool = False
    explored: bool = False


@dataclass(frozen=True, slots=True)
class Liveness:
    """Every ranked `leads_to` of the system holds at every size.

    promises: only these; none: all. defects: the rows without which a property is not proved.
    slow, nightly, helped: as in Safety. explored: small sizes show that each property pends, where
    an axiom with an `exists` keeps the cut-off from a counterexample.
    """

    system: str
    defects: tuple[Pending, ...]
    promises: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    nightly: tuple[str, ...] = ()
    explored: bool = False
    helped: bool = False

    def questions(self) -> Iterator[Question]:
        """The questions, except the one about idle lemmas: tests of their own cover those of a
        ranking.
        """
        pends = draining.pends_where_explored if self.explored else draining.pends
        drains = partial(draining.drains, helped=self.helped)
        for name, ask in (("holds", drains), ("something", pends)):
            yield Question(name, partial(ask, self.system, *self.promises),
                           name in self.slow, name in self.nightly)
        for defect in self.defects:
            name = f"defect-{defect.row}-{defect.leads_to}"
            yield Question(name, partial(self._notice, defect),
                           name in self.slow, name in self.nightly)

    def _notice(self, defect: Pending) -> None:
        change = draining.unfair if defect.unfair else draining.without
        broken = change(subject(self.system).system, defect.row)
        if defect.explored:
            draining.waits_where_explored(broken, defect.leads_to)
            return
        unhelped = draining.unhelped(
            self.system, broken, draining.ranking(self.system, defect.leads_to))
        assert unhelped == {defect.leads_to: Status.FAILED}
