"""A system with names that trip the language of another checker."""

from pdproto.spec.language import (
    Call,
    Machine,
    Message,
    Row,
    Sort,
    State,
    System,
    Table,
    auto,
)


class Thing(Sort, prefix="1-"):
    """A sort whose elements' names are no identifiers."""


class Mood(State):
    CALM = auto()
    TENSE = auto()
    ANGRY = auto()


def awkward_system() -> System:
    """Three cells whose plain names are words of C, two that would share a name."""
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
        Row("share", on=Call("share", t), when=done(), do=[shared(t).to(True)], send=[_float(t)]),
        Row("clash", when=clash() | taken(), do=[clash().to(True)]),
    )
    return System("awkward */ name", "Names that another checker could trip over.",
                  tables=(Table(machine, rows=rows), Table(peer)))
