"""The clauses of a part of a guard are made once for each choice of the part's own variables."""

from typing import Any

from pdproto.ground.grounding import Ground
from pdproto.ground.program import Clause
from pdproto.spec.language import Call, Machine, Row, Sort, System, Table, forall
from pdproto.spec.language.formula import Forall


class Node(Sort):
    """A process."""


n, m, k, o = Node("n"), Node("m"), Node("k"), Node("o")
desk = Machine("desk")
held = desk.relation("held", Node, Node)
SYSTEM = System("parts", "Nodes hold nodes.", (Table(desk, rows=(
    Row("take", on=Call("take", n, m, k), do=held(n, m).to(True),
        when=[forall(o, ~held(n, o)), held(m, k)]),)),))


class Counting(Ground):
    """Counts how often the clauses of a `forall` are made."""

    made = 0

    def _made(self, formula: Any, environment: Any) -> list[Clause]:
        self.made += isinstance(formula, Forall)
        return super()._made(formula, environment)


def test_a_part_is_made_once_for_each_choice_of_its_own_variables() -> None:
    ground = Counting(SYSTEM, {Node: 3})
    assert len(ground.rows) == 18  # of 27 not those in which n holds k by itself: m is n
    assert ground.made == 3
