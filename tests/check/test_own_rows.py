"""Which rows are mutated: those of processes and hosts, and of composed systems only their own."""

from typing import Final

from pdproto.check.mutate.edits import mutants
from pdproto.check.mutate.own_rows import environment, own_mutants, own_rows
from pdproto.cli.systems import load, parts_of
from pdproto.spec.handoff.renaming import Renamed
from pdproto.spec.language import (
    AddClause,
    Call,
    DropRow,
    Machine,
    Row,
    System,
    Table,
    edited,
)
from tests.language.tiny import Phase, i, w

worker, world = Machine("worker", w), Machine("world", world=True)
phase = worker.function("phase", Phase)
has = worker.relation("has", type(i))
PART: Final = System("part", "A part.", tables=(
    Table(worker, state=phase, rows=(
        Row("begin", on=Call("begin"), at=Phase.IDLE, to=Phase.BUSY),
        Row("take", on=Call("take", i), when=~has(w, i), do=[has(w, i).to(True)]),
    )),
    Table(world, rows=(Row("blow", choose=(w,), do=[phase(w).to(Phase.DONE)]),)),
))


def with_host() -> System:
    """The part renamed, and a host that also ends the work."""
    renamed = Renamed(
        PART.tables, machines={"worker": "clerk"}, symbols={"phase": "mood", "has": "holds"},
        rows={"begin": "start"})
    host = Machine("host", host=True)
    mood = renamed.symbol(phase)
    return System("composed", "A part and its host.", tables=(*renamed.tables, Table(host, rows=(
        Row("end", choose=(w,), when=mood(w) == Phase.BUSY, do=[mood(w).to(Phase.DONE)]),
    ))))


class TestAHost:
    def test_its_rows_are_mutated(self) -> None:
        assert "end" in {mutant.row.name for mutant in mutants([with_host()])}

    def test_it_reads_and_writes_every_variable(self) -> None:
        """As the world does: the system above is well-formed."""
        assert with_host().tables[-1].machine.world

    def test_a_renamed_host_is_one(self) -> None:
        (*_, table) = Renamed(with_host().tables, machines={}).tables
        assert table.machine.host


class TestTheEnvironment:
    def test_its_rows_are_not_mutated(self) -> None:
        assert {mutant.row.name for mutant in mutants([PART])} == {"begin", "take"}

    def test_its_rows_are_named(self) -> None:
        assert environment([PART, PART]) == {"world": ("blow",)}
        assert environment([with_host()]) == {"world": ("blow",)}

    def test_every_row_of_the_hand_over_is_mutated_or_named(self) -> None:
        composed = load("end-to-end-bootstrap")
        rows = {row.name for table in composed.tables for row in table.rows}
        left_out = {name for names in environment([composed]).values() for name in names}
        assert left_out == {"land", "refuse", "finish_fence", "start"}
        assert {mutant.row.name for mutant in mutants([composed])} == rows - left_out


class TestRowsOfAComposedSystem:
    def own(self, *systems: System) -> list[str]:
        return [row.name for row in own_rows(systems, [PART])]

    def test_rows_of_a_part_are_not_its_own(self) -> None:
        assert self.own(PART, edited(PART, "less", DropRow("begin"))) == []

    def test_renamed_rows_are_not_either(self) -> None:
        assert self.own(with_host()) == ["end"]

    def test_an_edited_row_is(self) -> None:
        """Also one that was renamed before."""
        composed = with_host()
        mood = composed.tables[0].state
        assert mood is not None
        changed = edited(composed, "changed", AddClause("take", mood(w) == Phase.BUSY))
        assert self.own(changed) == ["take", "end"]

    def test_those_of_the_hand_over(self) -> None:
        """The rows of HOST, and the one that is edited to bind a life to its run, among others."""
        names = ("end-to-end-bootstrap",)
        found = [row.name for row in own_rows([load(names[0])], parts_of(names))]
        assert found == [
            "ignore_introduce_gone", "ignore_publish_gone", "ignore_abort_gone",
            "reject_outdated_up", "leave", "accept", "lose_connection",
            "open_own_sender", "open_receiver", "notice", "disown",
        ]

    def test_only_a_composed_system_has_parts(self) -> None:
        assert parts_of(("registry", "registry-late")) == ()
        assert parts_of(("a.py:ONE",)) == ()
        assert "transfer" in {system.name for system in parts_of(("group-transfer",))}


class TestMutantsOfAComposedSystem:
    def own(self, system: System) -> list[str]:
        return [f"{mutant.row.name}: {mutant.words}"
                for mutant in own_mutants(mutants([system]), [system], [PART])]

    def test_of_an_edited_row_only_the_edit_is_mutated(self) -> None:
        """The other mutants of the row are tried in the part."""
        changed = edited(PART, "changed", AddClause("take", phase(w) == Phase.BUSY))
        assert self.own(changed) == [
            "take: drop `phase(w) = busy`", "take: negate `phase(w) = busy`"]

    def test_every_mutant_of_a_host(self) -> None:
        assert self.own(with_host()) == [
            "end: drop the row", "end: drop `mood(w) = busy`", "end: negate `mood(w) = busy`",
            "end: drop `mood(w) := done`", "end: `mood(w) := idle` for `mood(w) := done`",
            "end: `mood(w) := busy` for `mood(w) := done`",
            "end: `mood(any) := done` for `mood(w) := done`",
        ]

    def test_without_parts_every_mutant(self) -> None:
        assert own_mutants(mutants([PART]), [PART], []) == mutants([PART])

    def test_of_a_row_that_a_variant_edits_only_the_edit_is_mutated(self) -> None:
        """Also where the row before the edit is of the composed system itself."""
        composed = with_host()
        mood = composed.tables[0].state
        assert mood is not None
        variant = edited(composed, "variant", AddClause("end", mood(w) != Phase.DONE))
        found = own_mutants(mutants([composed, variant]), [composed, variant], [PART])
        assert [f"{mutant.row.name}: {mutant.words}" for mutant in found] == [
            *self.own(composed), "end: drop `mood(w) != done`", "end: negate `mood(w) != done`"]
