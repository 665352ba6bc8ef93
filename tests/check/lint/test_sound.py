"""Lint misses nothing: what random systems do, as the oracle runs them, lint has foreseen.

Lint looks at single cells, so it may warn of what cannot happen; it must never stay silent about
what does happen.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from hypothesis import HealthCheck, assume, given, settings

from pdproto.check.interpret import Interpreter, Store
from pdproto.check.lint import Remark, lint
from pdproto.check.lint.subject import LintSubject
from pdproto.check.words import trigger_name
from pdproto.spec.language import (
    Always,
    Call,
    Completion,
    Configuration,
    Machine,
    Message,
    Row,
    Sometimes,
    Sort,
    System,
)
from pdproto.spec.language.formula import Exists
from pdproto.spec.language.formula import free_variables as free
from pdproto.spec.language.symbols import Sent
from tests.check.systems import SMALLER, systems
from tests.judging import judged, judges
from tests.tiers import examples

STATES_MAX = 100
Remarks: TypeAlias = tuple[Remark, ...]
Enabled: TypeAlias = tuple[Row, Mapping[Sort, int], object]

SEARCHES = settings(
    max_examples=examples(8, 25),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def explored(oracle: Interpreter) -> list[Store]:
    try:
        return list(oracle.explore(STATES_MAX).depth)
    except ValueError:
        assume(False)
        raise


def found(remarks: Remarks, rule: str) -> list[Remark]:
    return [remark for remark in remarks if remark.rule == rule]


def enabled(oracle: Interpreter, store: Store) -> Iterator[Enabled]:
    """The rows of processes that can fire, with what each of them answers, and where."""
    state = dict(store)
    for table, layer in oracle.tables:
        for row in table.rows if not layer else ():
            for env in oracle.environments(table.parameters(row)):
                if oracle.holds(table.guard(row), state, env):
                    own = tuple(env[v] for v in table.machine.own)
                    arguments: tuple[Sort, ...] = ()
                    if isinstance(row.on, Sent):
                        arguments = row.on.arguments
                    elif isinstance(row.on, Call | Completion):
                        arguments = row.on.parameters
                    given_to = tuple(env[v] for v in arguments)
                    yield row, env, (table.machine.name, own, trigger_name(row.on), given_to)


@judges(4)
@given(systems())
@SEARCHES
def test_lint_foresees_what_the_oracle_runs(system: System) -> None:
    """Three rules on one exploration, which is the slow part."""
    oracle = Interpreter(system, SMALLER, ("lossy",))
    stores = explored(oracle)
    remarks = lint(system, Configuration(SMALLER))
    check_that_the_impossible_does_not_happen(system, remarks, oracle, stores)
    check_that_competing_rows_are_named(remarks, oracle, stores)
    check_that_unanswered_messages_are_named(system, remarks, oracle, stores)
    # What holds in every state that is reached excuses nothing that happens.
    true = [claim for claim in system.properties if isinstance(claim, Always) and all(
        oracle.holds(claim.claim, dict(store), environment)
        for store in stores for environment in oracle.environments(free(claim.claim))
    )]
    remarks = lint(system, Configuration(SMALLER), true)
    check_that_competing_rows_are_named(remarks, oracle, stores)
    check_that_unanswered_messages_are_named(system, remarks, oracle, stores)
    judged()


def check_that_the_impossible_does_not_happen(
    system: System, remarks: Remarks, oracle: Interpreter, stores: list[Store]
) -> None:
    reachable = LintSubject(system, SMALLER, {})
    never = {remark.message.split()[0] for remark in found(remarks, "never-fires")}
    unseen = {remark.message.split(":")[0] for remark in found(remarks, "vacuous")}
    for store in stores:
        for (symbol, indices), value in store:
            code = 1 << symbol.values.index(value)
            assert reachable.reachable[reachable.offset(symbol, indices)] & code
        for (name, _), _ in oracle.steps(store):
            assert name not in never
        for claim in system.properties:
            if isinstance(claim, Sometimes) and claim.name in unseen:
                formula = claim.claim
                for variable in free(formula):
                    formula = Exists(variable, formula)
                assert not oracle.holds(formula, dict(store), {})


def check_that_competing_rows_are_named(
    remarks: Remarks, oracle: Interpreter, stores: list[Store]
) -> None:
    messages = [remark.message for remark in found(remarks, "determinism")]
    named = {tuple(m.split(" can both")[0].split(" and ")) for m in messages}
    for store in stores:
        for (one, env, event), (two, other, same) in combinations(enabled(oracle, store), 2):
            if one is two or event != same or one.on is None:
                continue
            if all(env[v] == other[v] for v in set(one.choose) & set(two.choose)):
                assert (one.name, two.name) in named


def check_that_unanswered_messages_are_named(
    system: System, remarks: Remarks, oracle: Interpreter, stores: list[Store]
) -> None:
    problems = " ".join(remark.message for remark in found(remarks, "totality"))
    read = {message for message in messages_of(system) if not waits(system, message)}
    for store in stores:
        answered = {event for _, _, event in enabled(oracle, store)}
        for (symbol, indices), _ in store:
            if not isinstance(symbol, Message) or symbol in read:
                continue
            for own in receivers(symbol, indices):
                event = (symbol.receiver.machine.name, own, ("message", symbol.name), indices)
                assert event in answered or f"no row for {symbol.name}(" in problems


def messages_of(system: System) -> list[Message[*tuple[Sort, ...]]]:
    return [symbol for symbol in system.variables if isinstance(symbol, Message)]


def waits(system: System, message: Message[*tuple[Sort, ...]]) -> bool:
    return any(isinstance(r.on, Sent) and r.on.message is message for _, r in system.rows())


def receivers(
    message: Message[*tuple[Sort, ...]], indices: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """The instances of the random systems' machines (`node` per n, one hub) it is meant for."""
    machine: Machine[*tuple[Sort, ...]] = message.receiver.machine
    if not machine.own:
        yield ()
    elif machine.own[0] in message.formals:
        yield (indices[message.formals.index(machine.own[0])],)
    else:
        yield from ((index,) for index in range(SMALLER[type(machine.own[0])]))
