"""The clauses of a part of a guard are made once for each choice of the part's own variables."""

from collections.abc import Mapping

import pytest

from pdproto.ground.clausal import ClausalForm
from pdproto.ground.grounding import Ground
from pdproto.ground.program import Clause
from pdproto.spec.language import Call, Machine, Row, Sort, System, Table, forall
from pdproto.spec.language.formula import Forall, Formula


class Node(Sort):
    """A process."""


n, m, k, o = Node("n"), Node("m"), Node("k"), Node("o")
desk = Machine("desk")
held = desk.relation("held", Node, Node)
SYSTEM = System("parts", "Nodes hold nodes.", (Table(desk, rows=(
    Row("take", on=Call("take", n, m, k), do=held(n, m).to(True),
        when=[forall(o, ~held(n, o)), held(m, k)]),)),))


def test_a_part_is_made_once_for_each_choice_of_its_own_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = ClausalForm._made
    of_forall = []

    def counting(form: ClausalForm, formula: Formula, at: Mapping[Sort, int]) -> list[Clause]:
        of_forall.append(isinstance(formula, Forall))
        return made(form, formula, at)

    monkeypatch.setattr(ClausalForm, "_made", counting)
    rows = Ground(SYSTEM, {Node: 3}).rows
    assert len(rows) == 18  # of 27 not those in which n holds k by itself: m is n
    assert sum(of_forall) == 3
