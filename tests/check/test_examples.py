"""The examples: their sizes, known from elsewhere, and what each of their rows is good for."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.interpret import Interpreter
from pdproto.check.result import Finding, Verdict
from pdproto.check.rigid import interpretations
from pdproto.spec.examples import (
    lock_server,
    lock_server_broken,
    paxos,
    ring_election,
    two_phase_commit,
)
from pdproto.spec.examples.lock_server import Client, Lease, Round, book, c, lease, r
from pdproto.spec.examples.ring_election import Node, elected, k, m, n
from pdproto.spec.examples.two_phase_commit import Participant, heard, p
from pdproto.spec.language import (
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    Fairness,
    Sizes,
    System,
    each,
    edited,
    forall,
)

NO_FAULTS: Final[tuple[str, ...]] = ()
LOSSY: Final = ("lossy",)
TWO_PHASE_COMMIT: Final = two_phase_commit.SYSTEM
LOCK_SERVER: Final = lock_server.SYSTEM
LOCK_SERVER_BROKEN: Final = lock_server_broken.SYSTEM
RING_ELECTION: Final = ring_election.SYSTEM
EXAMPLES: Final = (TWO_PHASE_COMMIT, LOCK_SERVER, RING_ELECTION, paxos.SYSTEM)


class Counts(NamedTuple):
    """transitions: enabled ground rows over all states, without those that only ignore."""

    states: int
    transitions: int
    depth: int


# Two-phase commit. TLC reports "1146 states generated, 288 distinct states found" and a depth of
# 11 for TwoPhase with 3 participants: it counts the initial state as generated, and as level 1.
# 1,568 is published for 4. Depth: all prepare, all are heard, one decision, all commit: 3n + 1.
#
# Lock server. What one client and the server know of a lease goes through, in this order: unused;
# asked; current at both; held; over at the client; over at both. Let N be how many ways this
# gives for a client and all its rounds, G in how many of them the server has it out. It has at
# most one out, so that all clients together have (N-G)^n + n G (N-G)^(n-1) states.
#   Without loss every state has the messages that led to it. One round: N = 6, G = 3. With a
#   second, which begins when the first is over at the client: 1 way while the server still waits
#   for the first, and 5 afterwards: N = 12, G = 3 + 1 + 3 = 7. 2 clients: 5^2 + 2*7*5 = 95.
#   With loss any message that was sent may be there or not. One round: N = 1+2+4+4+8+8 = 27,
#   G = 4+4+8 = 16; 2 clients: 11^2 + 2*16*11 = 473; 3: 11^3 + 3*16*11^2 = 7,139. A second: 8*2
#   while the server waits for the first, 8*26 afterwards: N = 251, G = 16 + 16 + 8*16 = 160, and
#   2 clients have 91^2 + 2*160*91 = 37,401.
# Depth: each lease is asked for, given, entered, left and taken back, in 5 steps; in the state
# farthest away all of its 3 messages have been lost as well.
#
# Broken lock server. The server may have finished a lease that its client still waits for or
# holds: N = 8, G = 3 in one round, so 64 - 9 = 55; with a second N = 8 + 1 + 7 = 16 and
# G = 3 + 1 + 3 = 7, so 256 - 49 = 207.
#
# Ring. The states are those of a second model, below. Depth: every node starts, the proposal of
# the node in place i of n passes i lower ones, one node wins and n - 1 follow: 2n + n(n-1)/2.
#
# Transitions are published for 3 participants only; SPIN has counted the others, on
# exported models, with the rows that only ignore.
PINNED: Final[list[tuple[System, Sizes, tuple[str, ...], Counts]]] = [
    (TWO_PHASE_COMMIT, {Participant: 3}, NO_FAULTS, Counts(288, 1_145, 10)),
    (TWO_PHASE_COMMIT, {Participant: 4}, NO_FAULTS, Counts(1_568, 8_257, 13)),
    (LOCK_SERVER, {Client: 2, Round: 1}, LOSSY, Counts(473, 2_290, 16)),
    (LOCK_SERVER, {Client: 2, Round: 2}, NO_FAULTS, Counts(95, 452, 20)),
    (LOCK_SERVER_BROKEN, {Client: 2, Round: 1}, NO_FAULTS, Counts(55, 216, 10)),
    (LOCK_SERVER_BROKEN, {Client: 2, Round: 2}, NO_FAULTS, Counts(207, 1_106, 20)),
    (RING_ELECTION, {Node: 3}, NO_FAULTS, Counts(42, 111, 9)),
    (RING_ELECTION, {Node: 4}, NO_FAULTS, Counts(216, 904, 14)),
]


def name_of(value: object) -> str | None:
    if isinstance(value, System):
        return value.name
    if isinstance(value, dict):
        return ",".join(f"{sort.__name__}={size}" for sort, size in value.items())
    return None


@pytest.mark.parametrize(("system", "sizes", "faults", "counts"), PINNED, ids=name_of)
def test_the_oracle_finds_the_pinned_counts(
    system: System, sizes: Sizes, faults: tuple[str, ...], counts: Counts
) -> None:
    (given,) = interpretations(system, sizes, Configuration(sizes))
    explored = Interpreter(system, sizes, faults, given).explore()
    ignored = {row.name for _, row in system.rows() if row.kind == "ignore"}
    transitions = sum(times for (row, _), times in explored.fired.items() if row not in ignored)
    assert Counts(len(explored.depth), transitions, max(explored.depth.values())) == counts


@pytest.mark.parametrize(
    ("system", "sizes", "faults", "counts"),
    [
        *PINNED,
        (TWO_PHASE_COMMIT, {Participant: 5}, NO_FAULTS, Counts(8_832, 58_145, 16)),
        (TWO_PHASE_COMMIT, {Participant: 7}, NO_FAULTS, Counts(296_448, 2_744_705, 22)),
        (LOCK_SERVER, {Client: 3, Round: 1}, LOSSY, Counts(7_139, 48_345, 24)),
        (LOCK_SERVER, {Client: 2, Round: 2}, LOSSY, Counts(37_401, 323_378, 32)),
    ],
    ids=name_of,
)
def test_check_finds_the_pinned_counts(
    system: System, sizes: Sizes, faults: tuple[str, ...], counts: Counts
) -> None:
    # Some property that always holds, so that the broken one is explored to its end too.
    always = "free_means_free" if Client in sizes else system.properties[0].name
    found = check(system, Configuration(sizes, faults), CheckSettings(properties=(always,)))
    assert Counts(found.states, found.transitions, found.depth) == counts


Ring: TypeAlias = tuple[tuple[str, ...], frozenset[tuple[int, int]], frozenset[int]]


def ring_steps(state: Ring, after: Callable[[int], int]) -> Iterator[Ring]:
    """Where a node may take the election from here. after: the next node on the ring."""
    roles, proposals, news = state

    def turned(node: int, role: str) -> tuple[str, ...]:
        return (*roles[:node], role, *roles[node + 1 :])

    def proposing(node: int, proposed: int) -> frozenset[tuple[int, int]]:
        return proposals | {(after(node), proposed)}

    for node, role in enumerate(roles):
        if role == "asleep":
            yield turned(node, "candidate"), proposing(node, node), news
    for node, proposed in proposals:
        if roles[node] in ("follower", "leader"):
            continue
        if proposed > node:
            yield turned(node, "beaten"), proposing(node, proposed), news
        elif proposed == node:
            yield turned(node, "leader"), proposals, news | {after(node)}
        elif roles[node] == "asleep":
            yield turned(node, "candidate"), proposing(node, node), news
    for node in news:
        if roles[node] == "beaten":
            yield turned(node, "follower"), proposals, news | {after(node)}


def chang_roberts(size: int, after: Callable[[int], int]) -> int:
    """The states of the election, from a model that knows nothing of the language.

    A state is every node's role, the proposals sent (to whom, whose id) and who has been told of
    the winner.
    """
    initial: Ring = (("asleep",) * size, frozenset(), frozenset())
    seen = {initial}
    queue = deque(seen)
    while queue:
        for state in ring_steps(queue.popleft(), after):
            if state not in seen:
                seen.add(state)
                queue.append(state)
    return len(seen)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("name", "direction"), [("default", -1), ("best-case", 1)])
def test_the_ring_has_the_states_of_a_model_without_tables(
    name: str, direction: int, size: int
) -> None:
    named = RING_ELECTION.configurations[name]
    found = check(RING_ELECTION, Configuration({Node: size}, given=named.given), CheckSettings())
    assert found.states == chang_roberts(size, lambda node: (node + direction) % size)
    assert found.verdict is Verdict.HOLDS or size == 1  # where nobody follows anybody else


@pytest.mark.parametrize(
    ("system", "name"),
    [(system, name) for system in EXAMPLES for name in system.configurations],
    ids=str,
)
def test_every_property_of_a_sound_example_holds(system: System, name: str) -> None:
    found = check(system, system.configurations[name], CheckSettings())
    assert found.complete
    assert {finding.name: finding.verdict for finding in found.findings} == dict.fromkeys(
        (finding.name for finding in found.findings), Verdict.HOLDS
    )
    rejects = {row.name for _, row in system.rows() if row.kind == "reject"}
    assert set(found.rows_never_fired) <= rejects | {"lose_request", "lose_grant", "lose_release"}


def judged(
    system: System, name: str, configuration: Configuration, *fairness: Fairness
) -> Finding:
    """What a check says of one property, when it looks at nothing else."""
    settings = CheckSettings(properties=(name,), fairness=fairness)
    found = check(system, configuration, settings)
    (finding,) = (finding for finding in found.findings if finding.name == name)
    return finding


def test_the_broken_lock_server_lets_two_clients_in_after_a_timeout() -> None:
    default = LOCK_SERVER_BROKEN.configurations["default"]
    finding = judged(LOCK_SERVER_BROKEN, "mutual_exclusion", default)
    assert finding.verdict is Verdict.VIOLATED
    assert finding.trace is not None
    steps = [f"{step.row}({step.parameters})" for step in finding.trace.steps]
    assert sorted(steps) == sorted([
        "ask(c0, r0)", "give(c0, r0)", "enter(c0, r0)", "expire(c0, r0)",
        "ask(c1, r0)", "give(c1, r0)", "enter(c1, r0)",
    ])
    assert steps.index("give(c0, r0)") < steps.index("expire(c0, r0)")
    assert steps.index("expire(c0, r0)") < steps.index("give(c1, r0)")


def test_the_broken_lock_server_breaks_nothing_else() -> None:
    default = LOCK_SERVER_BROKEN.configurations["default"]
    found = check(LOCK_SERVER_BROKEN, default, CheckSettings(keep_going=True))
    wrong = [f.name for f in found.findings if f.verdict is not Verdict.HOLDS]
    assert wrong == ["mutual_exclusion"]


LOST: Final = LOCK_SERVER.configurations["default"]


@pytest.mark.parametrize(
    ("edit", "broken"),
    [
        (DropRow("ask_again"), "a_waiting_client_gets_the_lock"),
        (DropRow("give_again"), "the_lock_comes_back"),
        (DropRow("leave_again"), "the_lock_comes_back"),
        (DropClause("take_back", book(c, r) == Lease.CURRENT), "mutual_exclusion"),
        (DropClause("enter", lease(c, r) == Lease.CURRENT), "mutual_exclusion"),
        (DropClause("give", book(c, r) == Lease.UNUSED), "book_edges"),
    ],
    ids=lambda value: value.row if isinstance(value, DropRow | DropClause) else value,
)
def test_the_lock_server_needs_every_precaution(edit: DropRow | DropClause, broken: str) -> None:
    assert judged(LOCK_SERVER, broken, LOST).verdict is Verdict.HOLDS
    assert judged(edited(LOCK_SERVER, "bold", edit), broken, LOST).verdict is Verdict.VIOLATED


def test_an_old_grant_is_harmless_in_the_first_round() -> None:
    """Why the default has two rounds: one round would not show what the lease number is for."""
    bold = edited(LOCK_SERVER, "bold", DropClause("enter", lease(c, r) == Lease.CURRENT))
    one_round = Configuration({Client: 3, Round: 1}, faults=LOSSY)
    assert judged(bold, "mutual_exclusion", one_round).verdict is Verdict.HOLDS


def test_only_a_timer_makes_up_for_loss() -> None:
    """And without loss nobody waits for one."""
    without = Fairness.NO_TIMERS
    calm = LOCK_SERVER.configurations["no-loss"]
    for name in ("a_waiting_client_gets_the_lock", "the_lock_comes_back"):
        assert judged(LOCK_SERVER, name, LOST, without).verdict is Verdict.VIOLATED
        assert judged(LOCK_SERVER, name, calm, without).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("edit", "broken"),
    [
        (DropClause("pass_on", n.before(k)), "the_leader_is_the_highest"),
        (DropRow("wake_up"), "a_start_elects_a_leader_known_to_all"),
        (
            DropEffect("follow", each(m, elected(n, m, k), where=ring_election.next(n, m))),
            "a_start_elects_a_leader_known_to_all",
        ),
    ],
    ids=["pass_on", "wake_up", "follow"],
)
def test_the_ring_needs_every_rule(
    edit: DropClause | DropRow | DropEffect, broken: str
) -> None:
    default = RING_ELECTION.configurations["default"]
    bold = edited(RING_ELECTION, "bold", edit)
    assert judged(bold, broken, default).verdict is Verdict.VIOLATED


def test_the_coordinator_must_hear_every_participant() -> None:
    default = TWO_PHASE_COMMIT.configurations["default"]
    hasty = edited(TWO_PHASE_COMMIT, "hasty", DropClause("decide_commit", forall(p, heard(p))))
    assert judged(hasty, "agreement", default).verdict is Verdict.VIOLATED
