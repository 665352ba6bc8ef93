"""The model for SPIN: SPIN counts the states and the transitions that we count."""

import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from examples import lease_lock
from pdproto.check.interpret import Interpreter
from pdproto.check.opinions.promela import RESERVED, promela
from pdproto.check.opinions.spin import SpinRun, available, spin
from pdproto.check.rigid import interpretations
from pdproto.cli.main import main
from pdproto.ground.grounding import Ground
from pdproto.spec.examples import (
    lock_server,
    lock_server_broken,
    paxos,
    ring_election,
    two_phase_commit,
)
from pdproto.spec.examples.lock_server import Client, Round
from pdproto.spec.examples.ring_election import Node
from pdproto.spec.examples.two_phase_commit import Participant
from pdproto.spec.language import (
    Call,
    Configuration,
    Machine,
    Message,
    Row,
    Sizes,
    Sort,
    State,
    System,
    Table,
    auto,
)
from tests.check import test_channels

needs_spin = pytest.mark.skipif(not available(), reason="spin or gcc is not installed")

NO_FAULTS: tuple[str, ...] = ()
LOSSY = ("lossy",)


def ground(system: System, sizes: Sizes, faults: tuple[str, ...] = NO_FAULTS) -> Ground:
    (given,) = interpretations(system, sizes, Configuration(sizes))
    return Ground(system, sizes, faults, given)


def searched(system: System, sizes: Sizes, faults: tuple[str, ...] = NO_FAULTS) -> SpinRun:
    # 2^16 slots suffice for the small ones, and SPIN clears its table at every start.
    return spin(promela(ground(system, sizes, faults)), table_bits=16)


@needs_spin
@pytest.mark.parametrize(
    ("participants", "states"),
    # TLC's count for TwoPhase, as it is published with Lamport's module and by Stateright.
    [(3, 288), (5, 8_832), (7, 296_448)],
)
def test_spin_finds_the_published_states_of_two_phase_commit(
    participants: int, states: int
) -> None:
    run = searched(two_phase_commit.SYSTEM, {Participant: participants})
    assert (run.states, run.errors) == (states, 0)


@needs_spin
@pytest.mark.parametrize(
    ("system", "sizes", "faults"),
    [
        (two_phase_commit.SYSTEM, {Participant: 3}, NO_FAULTS),
        (lock_server.SYSTEM, {Client: 2, Round: 2}, NO_FAULTS),
        (lock_server.SYSTEM, {Client: 2, Round: 1}, LOSSY),
        (lease_lock.SYSTEM, {lease_lock.Client: 2, lease_lock.Token: 2}, NO_FAULTS),
        (paxos.SYSTEM, {paxos.Acceptor: 3, paxos.Quorum: 3, paxos.Ballot: 1, paxos.Value: 2},
         NO_FAULTS),
        (ring_election.SYSTEM, {Node: 3}, NO_FAULTS),  # 72 bits: more than a word
        (test_channels.SYSTEM, test_channels.SIZES, ("loss",)),
    ],
    ids=lambda value: value.name if isinstance(value, System) else None,
)
def test_spin_finds_the_states_and_transitions_of_the_oracle(
    system: System, sizes: Sizes, faults: tuple[str, ...]
) -> None:
    (given,) = interpretations(system, sizes, Configuration(sizes))
    explored = Interpreter(system, sizes, faults, given).explore()
    run = searched(system, sizes, faults)
    # SPIN counts one transition more: the one that brings it to the initial state.
    expected = (len(explored.depth), sum(explored.fired.values()) + 1, 0)
    assert (run.states, run.transitions, run.errors) == expected


@needs_spin
def test_spin_finds_the_mistake_of_the_broken_example() -> None:
    assert searched(lock_server_broken.SYSTEM, {Client: 2, Round: 1}).errors == 1


class Thing(Sort, prefix="1-"):
    """A sort whose elements' names are no identifiers."""


class Mood(State):
    CALM = auto()
    TENSE = auto()
    ANGRY = auto()


def awkward_system() -> System:
    """Three cells whose plain names are words of Promela or of C, two that would share a name."""
    t = Thing("t")
    machine = Machine("machine")
    active = machine.function("active", Mood)
    done = machine.relation("register")
    taken = machine.relation("BAD")
    shared = machine.relation("do", Thing)
    clash = machine.relation("do_1_0")
    peer = Machine("peer")
    _float = Message("float", t, sender=machine, receiver=peer)
    rows = (
        Row("calm", on=Call("*/ calm"), when=active() != Mood.ANGRY, do=[active().to(Mood.TENSE)]),
        Row("fume", when=active() == Mood.TENSE, do=[active().to(Mood.ANGRY), taken().to(True)]),
        Row("register", do=[done().to(True)]),
        # A call: a row that is taken by itself, and sends again and again, is an error to SPIN.
        Row("share", on=Call("share", t), when=done(), do=[shared(t).to(True)], send=[_float(t)]),
        Row("clash", when=clash() | taken(), do=[clash().to(True)]),
    )
    return System("awkward */ name", "Names that SPIN could trip over.",
                  tables=(Table(machine, rows=rows), Table(peer)))


@needs_spin
def test_no_name_trips_spin_and_nothing_is_left_out_of_the_state() -> None:
    # No row reads `do` and `float`, which SPIN by itself would not store: 8 states, not 20.
    system = awkward_system()
    explored = Interpreter(system, {Thing: 2}).explore()
    run = searched(system, {Thing: 2})
    assert (run.states, run.errors) == (len(explored.depth), 0)


def test_every_cell_has_a_name_of_its_own() -> None:
    form = ground(awkward_system(), {Thing: 2})
    names = re.findall(r"^(?:bit|unsigned) (\w+)", promela(form), flags=re.MULTILINE)
    assert len(names) == len(form.layout.fields)
    assert all(one != two for one, two in pairwise(sorted(names)))
    assert not RESERVED & set(names)


def test_a_row_reads_like_the_table() -> None:
    model = promela(ground(two_phase_commit.SYSTEM, {Participant: 2}))
    assert "/* vote: 0 working, 1 prepared, 2 committed, 3 aborted */" in model
    assert (
        ":: d_step { (vote_p1 == 0) -> vote_p1 = 1; prepared_p1 = 1 } /* prepare(p1) */" in model
    )
    assert "/* agreement: vote(p) = committed implies vote(q) != aborted */" in model


def test_export_writes_the_model_at_the_sizes_and_faults_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "model.pml"
    options = ["--size", "Round=1", "--faults", "none", "--output", str(target)]
    assert main(["export", "--promela", "lock-server", *options]) == 0
    expected = promela(ground(lock_server.SYSTEM, {Client: 2, Round: 1}))
    assert target.read_text(encoding="utf-8") == expected


def test_export_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--promela", "ring-election", "--size", "Node=2"]) == 0
    assert capsys.readouterr().out == promela(ground(ring_election.SYSTEM, {Node: 2}))


def test_export_of_several_topologies_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shutil.copy(Path(ring_election.__file__), tmp_path / "loose_ring.py")
    text = Path(source).read_text(encoding="utf-8")
    assert ", given=downward)" in text
    Path(source).write_text(text.replace(", given=downward)", ")"), encoding="utf-8")
    assert main(["export", "--promela", f"{source}:SYSTEM", "--size", "Node=2"]) == 2
    error = capsys.readouterr().err
    assert "ring-election: [next] have several interpretations" in error
    assert "given=" in error
