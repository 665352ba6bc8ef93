"""Liveness on the oracle's graph, from docs/explanation/fairness.md: Tarjan's components.

R. Tarjan, "Depth-first search and linear graph algorithms" (SIAM J. Comput. 1, 1972). A fair run
stays for ever in a set of states without the goal exactly if one of its strongly connected
components, along steps that are no faults, meets each fair row: the row cannot change something in
one of the states, or it fires between two of them.
"""

from collections.abc import Callable, Iterable

from pdproto.spec.language.formula import Or
from pdproto.spec.language.properties import Fairness, LeadsTo
from tests.oracle.interpreter import Env, State
from tests.oracle.search import Graph, free


def broken_instances(graph: Graph, claim: LeadsTo, fairness: Fairness) -> list[Env]:
    """The instances of the claim for which a fair run owes the goal and never pays."""
    return [env for env in graph.reader.choices(free(Or((claim.premise, claim.goal))))
            if _is_broken(graph, claim, fairness, env)]


def is_ever_pending(graph: Graph, claim: LeadsTo) -> bool:
    """Whether the premise holds in some state, for some instance."""
    return any(graph.reader.holds(claim.premise, dict(state), env)
               for env in graph.reader.choices(free(Or((claim.premise, claim.goal))))
               for state in graph.depth)


def _is_broken(graph: Graph, claim: LeadsTo, fairness: Fairness, env: Env) -> bool:
    reader = graph.reader
    owing = {s for s in graph.depth if not reader.holds(claim.goal, dict(s), env)}
    found = [s for s in owing if reader.holds(claim.premise, dict(s), env)]
    pending = set(found)
    for state in found:
        for _, after in graph.moves[state]:
            if after in owing and after not in pending:
                pending.add(after)
                found.append(after)

    def protocol(state: State) -> Iterable[State]:
        return (after for step, after in graph.moves[state]
                if not step.layer and after in pending and after != state)

    return any(_stays(graph, set(part), fairness, protocol)
               for part in components(pending, protocol))


def _stays(
    graph: Graph, part: set[State], fairness: Fairness,
    protocol: Callable[[State], Iterable[State]],
) -> bool:
    """Whether a fair run can stay in these strongly connected states, or in some of them.

    One that a strongly fair row of the states never leads to another of them has to avoid all
    states where the row could change something.
    """
    if not is_fair(graph, part, fairness):
        return False
    for step in graph.reader.steps:
        if not step.is_fair(fairness) or step.row.fair != "strong":
            continue
        changes = {state: {after for one, after in graph.moves[state]
                           if one is step and after != state} for state in part}
        if any(changes.values()) and not any(part & targets for targets in changes.values()):
            rest = {state for state, targets in changes.items() if not targets}
            return any(_stays(graph, set(fewer), fairness, protocol) for fewer in components(
                rest, lambda state, rest=rest: (s for s in protocol(state) if s in rest)))  # type: ignore[misc]  # the rest of now
    return True


def is_fair(graph: Graph, part: set[State], fairness: Fairness) -> bool:
    """Whether a fair run can stay in these strongly connected states for ever."""
    for step in graph.reader.steps:
        if not step.is_fair(fairness):
            continue
        changes = [{after for one, after in graph.moves[state] if one is step and after != state}
                   for state in part]
        if all(changes) and not any(part & targets for targets in changes):
            return False
    return True


def components(
    states: Iterable[State], after: Callable[[State], Iterable[State]]
) -> list[list[State]]:
    """The strongly connected components, without recursion."""
    number: dict[State, int] = {}
    low: dict[State, int] = {}
    stack: list[State] = []
    inside: set[State] = set()
    found: list[list[State]] = []
    for root in states:
        if root in number:
            continue
        work = [(root, iter(after(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        inside.add(root)
        while work:
            state, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[state])
                if low[state] == number[state]:
                    part: list[State] = []
                    while not part or part[-1] != state:
                        part.append(stack.pop())
                        inside.remove(part[-1])
                    found.append(part)
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                inside.add(following)
                work.append((following, iter(after(following))))
            elif following in inside:
                low[state] = min(low[state], number[following])
    return found
