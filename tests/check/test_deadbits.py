"""Dead bits: what is swept, what must not be, and what it is worth."""

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import Reductions, program
from pdproto.check.questions import questions
from pdproto.cli.systems import load
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import cell_name
from pdproto.spec.examples.two_phase_commit import Participant, commit, prepared
from pdproto.spec.language import (
    Always,
    Configuration,
    Machine,
    ReplaceProperties,
    Row,
    State,
    System,
    Table,
    auto,
    edited,
    implies,
)


def test_a_sweep_asks_first_whether_its_bit_is_set() -> None:
    """So an engine drops it by its cube, and seldom tests its clauses."""
    system = load("two-phase-commit")
    ground = Ground(system, {Participant: 2})
    form = program(ground, tuple(questions(ground)), Reductions(dead_bits=True))
    assert form.sweeps
    for sweep in form.sweeps:
        assert sweep.clear.bit_count() == 1
        assert sweep.guard.mask & sweep.guard.value & sweep.clear


class Light(State):
    RED = auto()
    GREEN = auto()


def swept(system: System, configuration: Configuration) -> set[str]:
    """The names of the cells that some sweep clears."""
    ground = Ground(system, configuration.sizes, configuration.faults)
    form = program(ground, tuple(questions(ground)), Reductions(dead_bits=True))
    cleared = 0
    for sweep in form.sweeps:
        cleared |= sweep.clear
    return {
        cell_name(*cell) for cell, field in ground.layout.fields.items() if field.mask & cleared
    }


def test_votes_are_dead_once_the_decision_has_been_made() -> None:
    """`prepared` and `heard` are read while the decision is open; the decision itself for ever."""
    names = swept(load("two-phase-commit"), Configuration({Participant: 2}))
    assert {"heard(p0)", "heard(p1)", "prepared(p0)", "prepared(p1)"} <= names
    assert not {"vote(p0)", "commit", "abort", "decision"} & names


def test_bits_that_a_property_reads_stay() -> None:
    """A property that asks for ever which votes were sent keeps `prepared`."""
    system = edited(
        load("two-phase-commit"),
        "remembering",
        ReplaceProperties((
            Always("sent", implies(commit(), prepared(p))),
        )),
    )
    assert "prepared(p0)" not in swept(system, Configuration({Participant: 2}))


p = Participant("p")


def test_a_cell_that_goes_round_is_never_swept() -> None:
    """Nobody reads the lamp, but blinking is something that happens: no deadlock."""
    machine = Machine("lamp")
    light = machine.function("light", Light)
    idle = machine.relation("idle")
    system = System("blinking", "", (Table(machine, state=light, rows=(
        Row("on", do=[light().to(Light.GREEN)]),
        Row("off", do=[light().to(Light.RED)]),
    )),), final=idle())
    for dead_bits in (False, True):
        result = check(
            system, Configuration({}, dead_bits=dead_bits), CheckSettings(keep_going=True)
        )
        assert (result.states, result.deadlocks) == (2, 0)


def test_it_is_worth_something() -> None:
    """The lock server under loss: the same verdicts from fewer states."""
    system = load("lock-server")
    plain, swept_too = (
        check(
            system,
            Configuration(
                system.configurations["default"].sizes, ("lossy",), dead_bits=dead_bits
            ),
            CheckSettings(keep_going=True),
        )
        for dead_bits in (False, True)
    )
    assert swept_too.states < plain.states
    assert [f.verdict for f in plain.findings] == [f.verdict for f in swept_too.findings]
