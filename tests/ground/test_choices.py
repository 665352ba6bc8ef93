"""Parameters are chosen through the static conditions of a guard: the same rows, and no others."""

import pytest

from pdproto.ground import choices, grounding
from pdproto.ground.choices import Choices
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language import Call, Machine, Rigid, Row, Sort, System, Table, exists, forall
from pdproto.spec.language.formula import Formula, normal


class Number(Sort, ordered=True):
    pass


x, y, z, w = Number("x"), Number("y"), Number("z"), Number("w")
plus = Rigid("plus", x, y, z, given=lambda sizes: {
    (a, b, a + b) for a in range(sizes[Number]) for b in range(sizes[Number])
    if a + b < sizes[Number]})
twin = Rigid("twin", x, y, given=lambda sizes: {(a, a) for a in range(sizes[Number])})
odd = Rigid("odd", x, given=lambda sizes: {(a,) for a in range(1, sizes[Number], 2)})
adder = Machine("adder")
seen = adder.relation("seen", Number)


def adding(*when: Formula, size: int) -> Ground:
    system = System("adder", "It adds.", tables=(Table(adder, rows=(
        Row("add", on=Call("add"), choose=(x, y, z), when=when, do=seen(z).to(True)),)),))
    given = {one: frozenset(one.given({Number: size})) for one in system.rigids if one.given}
    return Ground(system, {Number: size}, given=given)


@pytest.mark.parametrize("when", [
    (plus(x, y, z),), (plus(z, x, y), ~seen(x)), (plus(x, x, y), odd(z)), (~odd(x), x.before(y)),
    (twin(x, y), twin(y, z)), (twin(x, x), y.differs(z)), (odd(x) | odd(y), x.same(z)),
    (exists(w, plus(x, w, y)), forall(w, ~plus(w, w, z))), (exists(w, odd(w)), seen(y)),
    (forall(w, odd(w)),), (plus(x, y, z) | seen(x),), (~plus(x, y, z), ~seen(x) | odd(y)),
], ids=str)
def test_each_choice_that_may_fire_is_made_in_order(when: tuple[Formula, ...]) -> None:
    ground = adding(*when, size=4)
    ((table, row),) = ground.system.rows()
    guard = normal(table.guard(row))
    wanted = [one for one in ground.environments(table.parameters(row))
              if ground.guard(guard, one, row) is not None]
    found = list(Choices(table.parameters(row), guard, ground))
    assert [one for one in found if one in wanted] == wanted
    assert [one.environment for one in ground.rows] == wanted


def test_only_rows_that_can_fire_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grounding, "ROWS_MAX", 1_000)
    assert len(adding(plus(x, y, z), size=20).rows) == 20 * 21 // 2  # of 8,000 choices
    with pytest.raises(TooLargeError, match=r"over 1,000 ground rows .* at row 'add'"):
        _ = adding(~plus(x, y, z), size=20).rows


def test_a_search_for_choices_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "TRIED_MAX", 1_000)
    with pytest.raises(TooLargeError, match="over 1,000 choices of elements for one row"):
        _ = adding(x.before(y), y.before(z), z.before(x), size=20).rows
