"""Paxos: the states of a model without tables, and the shortest run of each mistake."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.counts import Counts
from pdproto.check.result import Verdict
from pdproto.spec.examples import paxos, paxos_broken
from pdproto.spec.examples.paxos import left, promise
from pdproto.spec.examples.voting import Acceptor, Ballot, Value, a, b, member, q
from pdproto.spec.language import (
    Configuration,
    DropClause,
    System,
    edited,
    forall,
    implies,
)
from pdproto.spec.lemmas.paxos_lemmas import LEMMAS

SYSTEM: Final = paxos.SYSTEM
NEVER: Final = -1  # a ballot before the first

Latest: TypeAlias = tuple[int, int]  # the ballot and the value of a vote


class Notes(NamedTuple):
    """The memory of an acceptor: the ballot that it has promised, and its latest vote."""

    promised: int = NEVER
    latest: Latest | None = None


class Run(NamedTuple):
    """A state: the messages sent, the notes of each acceptor, the ballots and values learned."""

    sent: frozenset[tuple[Any, ...]]
    notes: tuple[Notes, ...]
    learned: frozenset[Latest] = frozenset()


class Model(NamedTuple):
    """Paxos without tables: numbers for ballots and values, majorities for quorums."""

    acceptors: int
    ballots: int
    values: int

    @property
    def quorums(self) -> list[tuple[int, ...]]:
        return list(combinations(range(self.acceptors), self.acceptors // 2 + 1))

    def counts(self) -> Counts:
        """Breadth first, from nothing sent."""
        depth, transitions = self.explored()
        return Counts(len(depth), transitions, max(depth.values()))

    def explored(self) -> tuple[dict[Run, int], int]:
        """The depth of each state, and the number of transitions."""
        first = Run(frozenset(), (Notes(),) * self.acceptors)
        depth = {first: 0}
        queue, transitions = deque([first]), 0
        while queue:
            run = queue.popleft()
            for after in (*self.proposed(run), *self.answered(run), *self.chosen(run)):
                transitions += 1
                if after not in depth:
                    depth[after] = depth[run] + 1
                    queue.append(after)
        return depth, transitions

    def proposed(self, run: Run) -> Iterator[Run]:
        """A proposer begins its ballot, or has heard a quorum."""
        for ballot in range(self.ballots):
            yield run._replace(sent=run.sent | {("prepare", ballot)})
            if any(message[:2] == ("accept", ballot) for message in run.sent):
                continue
            heard = {message[2]: message[3] for message in run.sent
                     if message[:2] == ("promise", ballot)}
            for quorum in self.quorums:
                if all(who in heard for who in quorum):
                    votes = [vote for who in quorum if (vote := heard[who])]
                    free = range(self.values)
                    for value in [max(votes)[1]] if votes else free:
                        yield run._replace(sent=run.sent | {("accept", ballot, value)})

    def answered(self, run: Run) -> Iterator[Run]:
        """An acceptor takes a message, unless it has promised a later ballot."""
        for who, (last, latest) in enumerate(run.notes):
            for kind, ballot, *rest in run.sent:
                answer: tuple[Any, ...]
                if kind == "prepare" and ballot > last:
                    after, answer = Notes(ballot, latest), ("promise", ballot, who, latest)
                elif kind == "accept" and ballot >= last:
                    after = Notes(ballot, (ballot, *rest))
                    answer = ("vote", ballot, who, *rest)
                else:
                    continue
                notes = (*run.notes[:who], after, *run.notes[who + 1:])
                yield run._replace(sent=run.sent | {answer}, notes=notes)

    def chosen(self, run: Run) -> Iterator[Run]:
        """The learner has the votes of a quorum."""
        for votes in {(ballot, value) for ballot in range(self.ballots)
                      for value in range(self.values)} - run.learned:
            ballot, value = votes
            for quorum in self.quorums:
                if all(("vote", ballot, who, value) in run.sent for who in quorum):
                    yield run._replace(learned=run.learned | {votes})


@pytest.mark.parametrize("model", [
    Model(1, 1, 1), Model(1, 2, 2), Model(2, 2, 2), Model(3, 1, 2), Model(3, 2, 1),
    Model(3, 2, 2), Model(4, 1, 1),
], ids=lambda model: "-".join(map(str, model)))
def test_paxos_has_the_states_of_a_model_without_tables(model: Model) -> None:
    """The transitions and the depth, too."""
    found = check(SYSTEM, sized(model), CheckSettings(properties=("agreement",)))
    assert Counts(found.states, found.transitions, found.depth) == model.counts()


@pytest.mark.parametrize("model", [Model(3, 1, 2), Model(3, 2, 2), Model(4, 1, 1)], ids=str)
def test_quorums_are_renamed_with_their_acceptors(model: Model) -> None:
    """Of states that differ only in the names of acceptors and values, one is kept."""
    orbits = {
        min(repr(renamed(run, acceptors, values))
            for acceptors in permutations(range(model.acceptors))
            for values in permutations(range(model.values)))
        for run in model.explored()[0]
    }
    settings = CheckSettings(properties=("agreement",))
    found = check(SYSTEM, replace(sized(model), symmetry=True), settings)
    assert (found.states, found.verdict) == (len(orbits), Verdict.HOLDS)


def renamed(run: Run, acceptors: tuple[int, ...], values: tuple[int, ...]) -> Any:
    """The state with other names, as a value that is equal for equal states."""
    def latest(vote: Latest | None) -> Latest | None:
        return None if vote is None else (vote[0], values[vote[1]])

    def message(kind: str, ballot: int, *rest: Any) -> tuple[Any, ...]:
        match kind, rest:
            case "promise", (who, vote):
                return kind, ballot, acceptors[who], latest(vote)
            case "vote", (who, value):
                return kind, ballot, acceptors[who], values[value]
            case "accept", (value,):
                return kind, ballot, values[value]
        return kind, ballot

    notes = {acceptors[who]: (one.promised, latest(one.latest))
             for who, one in enumerate(run.notes)}
    return (sorted(map(str, (message(*one) for one in run.sent))), sorted(notes.items()),
            sorted((ballot, values[value]) for ballot, value in run.learned))


def sized(model: Model) -> Configuration:
    """The sizes of the model."""
    return Configuration({Acceptor: model.acceptors, Ballot: model.ballots, Value: model.values})


def shortest(system: System) -> int | None:
    """The steps of the shortest run to a second value; None if there is none."""
    default = SYSTEM.configurations["default"]
    found = check(system, default, CheckSettings(properties=("agreement",)))
    (agreement,) = (finding for finding in found.findings if finding.name == "agreement")
    if agreement.verdict is Verdict.HOLDS:
        return None
    assert agreement.trace is not None
    return len(agreement.trace.steps)


# A ballot whose value is learned takes 7 steps: prepare, two promises, a proposal, two votes, and
# the learner. Two ballots take 14. A proposer that waits for nobody needs neither its own call to
# prepare nor a promise: 4 steps, twice.
@pytest.mark.parametrize(("broken", "steps"), [
    (SYSTEM, None),
    (paxos_broken.SYSTEM, 14),
    (edited(SYSTEM, "forgets-its-promise", DropClause("vote", ~left(a, b))), 14),
    (edited(SYSTEM, "waits-for-nobody",
            DropClause("propose", forall(a, implies(member(q, a), promise(a, b))))), 8),
], ids=str)
def test_the_shortest_run_to_a_second_value(broken: System, steps: int | None) -> None:
    assert shortest(broken) == steps


def test_the_lemmas_hold_in_every_state() -> None:
    claimed = replace(SYSTEM, name="claimed", properties=LEMMAS)
    found = check(claimed, SYSTEM.configurations["default"], CheckSettings(keep_going=True))
    assert [f.name for f in found.findings if f.verdict is not Verdict.HOLDS] == []
