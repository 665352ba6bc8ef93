"""The dialogue of `pdproto explore --text`, line by line."""

from functools import partial

import pytest

from pdproto.check.stepping.dialogue import Dialogue
from pdproto.check.stepping.walk import Walker
from pdproto.check.stepping.ways import shortest
from pdproto.spec.language import TRUE, Call, Configuration, Formula, Machine, Row, System, Table
from tests.check.stepping.serving import SOURCE
from tests.check.stepping.test_walk import VIOLATION, walker

LAMP = Machine("lamp")
lit = LAMP.relation("lit")


def dialogue(path: tuple[str, ...] = ()) -> Dialogue:
    return Dialogue(walker(), SOURCE, path)


def told(talk: Dialogue, *lines: str) -> list[str]:
    """The answer to the last line."""
    for line in lines[:-1]:
        list(talk.answer(line))
    return list(talk.answer(lines[-1]))


def rows(talk: Dialogue) -> list[str]:
    return list(talk.path)


def test_numbers_and_rows_fire_and_undo_takes_back() -> None:
    talk = dialogue()
    assert "  1  ask(c0, r0)  client c0  call lock" in list(talk.opening())
    assert told(talk, "1")[:4] == [
        "  1  ask(c0, r0) at client c0  call lock",
        "       phase(c0): idle → waiting",
        "       lease(c0, r0): unused → current",
        "       sends request(c0, r0) to server",
    ]
    told(talk, "give(c0,r0)", "enter(c0, r0)")
    assert rows(talk) == ["ask(c0, r0)", "give(c0, r0)", "enter(c0, r0)"]
    told(talk, "u")
    assert rows(talk) == ["ask(c0, r0)", "give(c0, r0)"]
    told(talk, "undo 9")
    assert rows(talk) == []
    assert told(talk, "u") == ["this is the initial state: there is nothing to undo"]


def test_a_violation_is_told_with_its_values() -> None:
    talk = dialogue(VIOLATION[:-1])
    broken = "  ✗ mutual_exclusion: c=c0, d=c1: phase(c0) = holding, phase(c1) = holding"
    assert broken not in told(talk, "p")
    assert broken in told(talk, VIOLATION[-1])
    assert "  ✗ mutual_exclusion  violated" in told(talk, "p")


def test_why_tells_the_conditions_that_fail() -> None:
    talk = dialogue(("ask(c1, r0)",))
    assert told(talk, "w leave") == [
        "leave(c0, r0) needs phase(c0) = holding, but it is idle; "
        "lease(c0, r0) = current, but it is unused",
        "leave(c1, r0) needs phase(c1) = holding, but it is waiting",
    ]
    assert told(talk, "w give")[1] == "give(c1, r0) can fire"
    assert any(line.startswith("enter(c1, r0) needs") for line in told(talk, "why"))


def test_go_takes_the_shortest_way_or_says_that_there_is_none() -> None:
    talk = dialogue()
    told(talk, "g phase(c0) = holding and phase(c1) = holding")
    assert len(talk.path) == len(VIOLATION)
    assert told(talk, "g phase(c0) = holding") == ["it holds here"]
    assert told(talk, "g book(c0, r0) = unused") == [
        "there is no way from here: all 8 states that can be reached were searched"]


def test_a_search_that_was_cut_tells_of_no_other_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdproto.check.stepping.dialogue.shortest", partial(shortest, states_max=5))
    (line,) = told(dialogue(), "g phase(c0) = holding and phase(c1) = holding")
    assert line.startswith("no way was found within ")


@pytest.mark.parametrize(("final", "words"), [
    (TRUE, "a run may end here"), (~lit(), "deadlock: no run may end here")])
def test_a_run_may_end_only_where_that_is_declared(final: Formula, words: str) -> None:
    system = System("lamp", "A lamp.", tables=(Table(LAMP, rows=(
        Row("turn_on", on=Call("turn_on"), do=lit().to(True)),)),), final=final)
    talk = Dialogue(Walker(system, Configuration({}), {}), SOURCE, ())
    assert not [line for line in talk.opening() if "may end here" in line]
    assert words in told(talk, "turn_on")


def test_the_path_the_values_and_the_test_are_shown() -> None:
    talk = dialogue(("ask(c0, r0)",))
    assert told(talk, "l") == ["  1  ask(c0, r0)", "1 step"]
    assert "  request(c0, r0) = true" in told(talk, "s")
    assert '        "ask(c0, r0)",' in told(talk, "t")
    assert told(talk, "?")[0].startswith("  NUMBER, ROW")
    assert told(talk, "q") == []
    assert talk.over


@pytest.mark.parametrize(("line", "answer"), [
    ("7", "there is no row 7: 2 rows can fire"),
    ("0", "there is no row 0: 2 rows can fire"),
    ("aks(c0, r0)", "lock-server-broken has no row 'aks(c0, r0)' at these sizes (perhaps "
                    "ask(c0, r0) or ask(c1, r0)?)"),
    ("enter(c0, r0)", "enter(c0, r0) cannot fire here: it needs message grant(c0, r0); "
                      "phase(c0) = waiting, but it is idle; "
                      "lease(c0, r0) = current, but it is unused"),
    ("g", "a formula is missing, such as phase(c0) = holding"),
    ("g lock = tkaen", "'tkaen' is no value of lock (perhaps taken?); it has: free, taken"),
    ("w nothing", "lock-server-broken has no row 'nothing' at these sizes"),
])  # fmt: skip
def test_a_mistake_is_told_and_changes_nothing(line: str, answer: str) -> None:
    talk = dialogue()
    (only,) = told(talk, line)
    assert only == answer
    assert talk.path == ()
