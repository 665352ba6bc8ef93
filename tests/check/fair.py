"""Fair runs by another algorithm than the checker's, on the oracle's graph.

E. A. Emerson and C.-L. Lei, "Efficient model checking in fragments of the propositional
mu-calculus" (LICS 1986): the states from which a fair run stays in Z are the greatest Z such that
every state of Z can, for each fairness condition, come through Z to a place where it is met, and
then go on in Z. Weak fairness of a row is met where the row is disabled, and by an edge that
fires it. Slow, and different enough to be worth comparing with.
"""

from pdproto.check.interpret import Explored, Interpreter, Step, Store
from pdproto.spec.language import Fairness, LeadsTo, System, Timer
from pdproto.spec.language.formula import Or, free_variables
from pdproto.spec.language.symbols import Sizes


def pending_for_ever(
    system: System, sizes: Sizes, explored: Explored, fairness: Fairness
) -> bool:
    """Whether a fair run of the system owes the goal of its `leads_to` and never pays."""
    (claim,) = [c for c in system.properties if isinstance(c, LeadsTo)]
    interpreter = Interpreter(system, sizes)
    for environment in interpreter.environments(free_variables(Or((claim.premise, claim.goal)))):
        goal = {s for s in explored.depth if interpreter.holds(claim.goal, dict(s), environment)}
        owing = {
            s for s in explored.depth if interpreter.holds(claim.premise, dict(s), environment)
        }
        allowed = set(explored.depth) - goal
        if reachable(explored, owing & allowed, allowed) & staying(
            system, explored, allowed, fairness
        ):
            return True
    return False


def reachable(explored: Explored, sources: set[Store], allowed: set[Store]) -> set[Store]:
    """What the sources reach among the allowed states, faults included."""
    after: dict[Store, set[Store]] = {}
    for source, _, target in explored.edges:
        after.setdefault(source, set()).add(target)
    seen, queue = set(sources), list(sources)
    while queue:
        for target in after.get(queue.pop(), set()) & allowed - seen:
            seen.add(target)
            queue.append(target)
    return seen


def staying(
    system: System, explored: Explored, allowed: set[Store], fairness: Fairness
) -> set[Store]:
    """The states from which a fair run without faults stays among the allowed ones."""
    protocol = {row.name: row for table in system.tables for row in table.rows}
    edges = [edge for edge in explored.edges if edge[1][0] in protocol]
    fair = {step for _, step, _ in edges if _is_fair(system, step, fairness)}
    enabled: dict[Store, set[Step]] = {}
    for source, step, _ in edges:
        enabled.setdefault(source, set()).add(step)
    # Staying where one is is always possible; it is fair only where nothing fair is enabled.
    moves: list[tuple[Store, Step | None, Store]] = [(s, None, s) for s in allowed]
    moves += [edge for edge in edges if {edge[0], edge[2]} <= allowed]
    region = set(allowed)
    while True:
        kept = set(region)
        for step in fair:
            met = {
                source
                for source, fired, target in moves
                if {source, target} <= kept
                and (fired == step or step not in enabled.get(source, set()))
            }
            kept &= _coming(moves, met, kept)
        if kept == region:
            return region
        region = kept


def _coming(
    moves: list[tuple[Store, Step | None, Store]], ends: set[Store], within: set[Store]
) -> set[Store]:
    """The states that can come to one of the ends through `within`."""
    seen = set(ends)
    while True:
        more = {s for s, _, t in moves if t in seen and s in within} - seen
        if not more:
            return seen
        seen |= more


def _is_fair(system: System, step: Step, fairness: Fairness) -> bool:
    found = system.row(step[0])
    assert found is not None
    row = found[1]
    net = isinstance(row.on, Timer) and not row.on.detector
    return row.is_fair and not (net and fairness is Fairness.DETECTORS)
