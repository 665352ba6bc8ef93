"""Judges the runs that the checker draws: each is a run of the tables, to what it claims.

A run comes as the JSON of `pdproto check --json`: rows with their parameters, in turn.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.formula import Or
from pdproto.spec.language.numbered import IsNumber
from pdproto.spec.language.properties import Fairness, LeadsTo, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message
from tests.oracle.above import Above
from tests.oracle.answers import Answer, World
from tests.oracle.fair import is_fair
from tests.oracle.interpreter import Cells, Env, State, Step, initial
from tests.oracle.search import DEADLOCK, Graph, Questions, free

# Of the network and not of a machine: a channel, and who has taken a broadcast.
NETWORK = "from ", "took_"


def wrongs(answer: Answer, told: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the run of a property, as `check --json` tells it."""
    if told.get("trace") is None:
        return
    try:
        world, instance = _world(answer, told["instance"])
        yield from _Told(world, told, instance).wrongs()
    except StopIteration:
        yield "it names no interpretation of the rigid relations"


def _world(answer: Answer, instance: str) -> tuple[World, str]:
    """The interpretation that the run names, and the rest of the instance."""
    if len(answer.worlds) == 1:
        return answer.worlds[0], instance
    rest, _, where = instance.rpartition("where ")
    named = set(where.removeprefix("nothing is related").replace("), ", ")|").split("|")) - {""}
    world = next(w for w in answer.worlds if _related(w) == named)
    return world, rest.removesuffix(", ")


def _related(world: World) -> set[str]:
    """The pairs of the rigid relations as a report writes them."""
    return {_applied(rigid, at) for rigid, tuples in world.given.items()
            if not isinstance(rigid, IsNumber) for at in tuples}


def _applied(symbol: Any, at: tuple[int, ...]) -> str:
    elements = [sort.element(i) for sort, i in zip(symbol.sorts, at, strict=False)]
    return f"{symbol.name}({', '.join(elements)})" if elements else str(symbol.name)


def element_texts(env: Mapping[Sort, int]) -> str:
    """The elements of variables as a report writes them: `n=n0, i=i1`."""
    return ", ".join(f"{v.name}={type(v).element(i)}" for v, i in env.items())


def assumed(told: Mapping[str, Any]) -> set[Fairness]:
    """The assumptions under which a `leads_to` was judged; of a violated one, that of its run."""
    return {Fairness[name.upper().replace("-", "_")] for name in told["fairness"]}


class _Told:
    """A run that is told, and the states that it goes through."""

    def __init__(self, world: World, told: Mapping[str, Any], instance: str) -> None:
        self.world, self.told, self.instance = world, told, instance
        claim = [p for p in world.system.properties if p.name == told["name"]]
        self.claim: Any = claim[0] if claim else None
        self.fairness = Fairness.TIMERS
        if isinstance(self.claim, LeadsTo):
            (self.fairness,) = assumed(told)
        self.graph: Graph = world.graph(self.fairness)
        self.steps: list[Step] = []
        self.states: list[State] = [self._start()]

    def _start(self) -> State:
        """The initial state that the report tells."""
        told = {(one["variable"], one["after"]) for one in self.told["start"]}
        return next(state for state, depth in self.graph.depth.items() if not depth and all(
            (_applied(symbol, at), _text(symbol, dict(state).get((symbol, at), initial(symbol))))
            in told
            for symbol in self.world.system.variables if symbol.starts_free
            for at in product(*(range(self.graph.reader.sizes[s]) for s in symbol.domain))))

    def wrongs(self) -> Iterator[str]:
        for number, step in enumerate(self.told["trace"], 1):
            wrong = self._go(step)
            if wrong:
                yield f"step {number}: {wrong}"
                return
        yield from self._wrong_end()

    def _go(self, step: Mapping[str, Any]) -> str:
        """Take the step; what is wrong with it."""
        before = self.states[-1]
        here = [(one, after) for one, after in self.graph.moves[before]
                if one.row.name == step["row"] and one.parameters == step["parameters"]]
        if len(here) != 1:
            return f"{step['row']}({step['parameters']}) can not fire"
        one, after = here[0]
        self.steps.append(one)
        self.states.append(after)
        if step["fault"] != one.layer:
            return f"fault {step['fault']!r}, and not {one.layer!r}"
        told = {(c["variable"], c["before"], c["after"]) for c in step["changes"]
                if not c["variable"].startswith(NETWORK)}
        if told != _changes(dict(before), dict(after)):
            return f"changes {sorted(told)}, and not {sorted(_changes(dict(before), dict(after)))}"
        sent = {_applied(message, at) for message, at in self.graph.reader.sent(one)}
        if not sent <= {arrow["message"] for arrow in step["sent"]}:
            return f"sends {step['sent']}, and not {sorted(sent)}"
        asked = Questions(self.graph)
        for name, holds in step["holds"].items():
            if holds == asked.decides(name, after):
                return f"after it {name} {'does not hold' if holds else 'holds'}"
        return ""

    def _wrong_end(self) -> Iterator[str]:
        last = self.states[-1]
        for blocked in self.told["blocked"]:
            if any(one.row.name == blocked["row"] and one.parameters == blocked["parameters"]
                   for one, _ in self.graph.moves[last]):
                yield f"{blocked['row']}({blocked['parameters']}) can fire at the end"
        if isinstance(self.claim, LeadsTo):
            yield from self._wrong_lasso()
        elif isinstance(self.claim, Refines):
            for over in self.graph.reader.choices(self.claim.over):
                if self._is_instance(over):
                    wrong = Above(self.graph, self.claim, over).wrong_end(self.states)
                    yield from (wrong,) if wrong else ()
        elif self.told["name"] == DEADLOCK:
            if not self.graph.is_stuck(last):
                yield "the last state is not stuck"
        else:
            instances = list(Questions(self.graph).instances(self.told["name"], last))
            if not instances:
                yield ("the last state is no witness" if isinstance(self.claim, Sometimes)
                       else "the property holds in the last state")
            elif self.claim is not None and not any(
                    self._is_instance(env) for env in instances):
                named = " | ".join(map(element_texts, instances))
                yield f"it is about {named}, and not {self.instance}"

    def _is_instance(self, env: Env) -> bool:
        """Whether the report names this instance: perhaps other elements of it too, or fewer."""
        named = set(filter(None, self.instance.split(", ")))
        return named <= set(element_texts(env).split(", "))

    def _wrong_lasso(self) -> Iterator[str]:
        variables = free(Or((self.claim.premise, self.claim.goal)))
        envs = [env for env in self.graph.reader.choices(variables) if self._is_instance(env)]
        if len(envs) != 1:
            yield f"the instance {self.instance} is not one"
            return
        loop = self.told["loop"]
        if not self._owes(envs[0], len(self.states) if loop is None else loop + 1):
            yield "the goal is not owed from the loop on" if loop is not None else (
                "the goal is not owed at the end")
        if loop is None:
            if not is_fair(self.graph, {self.states[-1]}, self.fairness):
                yield "a fair row can change the last state"
            return
        if self.states[loop] != self.states[-1] or loop == len(self.steps):
            yield "the loop is not closed"
        yield from self._wrong_loop(self.steps[loop:], self.states[loop:])

    def _owes(self, env: Env, until: int) -> bool:
        """Whether the premise holds in one of the first states, and the goal never from there on.
        """
        holds = self.graph.reader.holds
        for number in range(min(until, len(self.states))):
            rest = self.states[number:]
            if holds(self.claim.premise, dict(rest[0]), env) and not any(
                    holds(self.claim.goal, dict(state), env) for state in rest):
                return True
        return False

    def _wrong_loop(self, steps: list[Step], states: list[State]) -> Iterator[str]:
        if any(step.layer for step in steps):
            yield "a fault happens in the loop"
        for fair in self.graph.reader.steps:
            if fair.is_fair(self.fairness) and not any(fair is step for step in steps) and all(
                    any(one is fair and after != state for one, after in self.graph.moves[state])
                    for state in states):
                yield f"the loop leaves out {fair.row.name}({fair.parameters})"
            if fair.is_fair(self.fairness) and fair.row.fair == "strong" and not any(
                    fair is step for step in steps) and any(
                    one is fair and after != state
                    for state in states for one, after in self.graph.moves[state]):
                yield f"the loop leaves out {fair.row.name}({fair.parameters}), strongly fair"


def _changes(before: Cells, after: Cells) -> set[tuple[str, str, str]]:
    """The variables that a step changes, each with its values as a report writes them."""
    found = set()
    for symbol, at in {*before, *after}:
        if isinstance(symbol, tuple | Message):
            continue
        old, new = (cells.get((symbol, at), initial(symbol)) for cells in (before, after))
        if old != new:
            found.add((_applied(symbol, at), _text(symbol, old), _text(symbol, new)))
    return found


def _text(symbol: Any, value: Any) -> str:
    if isinstance(symbol, ElementFunction):
        return "unset" if value is None else str(symbol.sorts[-1].element(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
