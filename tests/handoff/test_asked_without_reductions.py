"""lab/reductions.jsonl: what is explored with two reductions has the same verdicts without them."""

from dataclasses import replace

from lab.reductions import answer, differences, every_question, is_current, record
from pdproto.check.checking import CheckSettings, check
from pdproto.check.counts import counts

ONE = "binding-named-timeouts-only default"


def test_nothing_that_was_asked_again_differs() -> None:
    assert {name: line["differences"] for name, line in record().items()
            if line.get("differences")} == {}


def test_each_question_has_an_answer_or_a_reason() -> None:
    assert {*record()} == {*every_question()}, "`python -m lab.reductions`, or say why not"
    assert all(line.get("not asked", "plain" in line) for line in record().values())


def test_a_record_is_of_these_tables() -> None:
    """Changed tables have other counts: `python -m lab.reductions` asks about them again."""
    assert [name for name, line in record().items() if not is_current(name, line)] == []
    assert sum("states with both" in line.get("not asked", "") for line in record().values()) > 5
    assert not is_current(ONE, {**record()[ONE], "reduced": [1, 1, 1]})
    assert not is_current(ONE, {"not asked": "1 states with both reductions"})


def test_a_question_is_asked_again() -> None:
    line = answer(ONE, gib=1, seconds=60)
    assert line == record()[ONE]
    assert line["plain"][0] > line["reduced"][0]


def test_another_answer_is_a_difference() -> None:
    asked = every_question()["defect B06-attempts in B06-attempts"]
    found = check(asked.system, asked.configuration, CheckSettings((asked.violates,)))
    other = replace(found, findings=tuple(
        replace(one, trace=None) for one in found.findings))
    assert [*differences(found, found)] == []
    assert [*differences(found, other)] == [f"{asked.violates}: 5 steps, and None without"]
    assert counts(found) == counts(other)
