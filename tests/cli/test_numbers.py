"""Numbers and counts under the verbs that run and change a system, and under the server for agents.

The count of this system is one of which no proof can speak, and the others do not ask for a proof.
"""

from pathlib import Path

import pytest

from pdproto.cli.main import main
from tests.cli.test_mcp import asked

SPEC = '''"""Nodes that ask."""
from pdproto.spec.language import (
    Always, Call, Configuration, Ignore, Int, Machine, Message, Row, Sometimes, Sort, System, Table,
    count, forall, implies, size,
)

class Node(Sort):
    """A node."""

n, m = Node("n"), Node("m")
node, desk = Machine("node", n), Machine("desk")
tries = node.function("tries", Int(0, 2))
total = desk.function("total", Int(0, 4, saturates=True))
asked = desk.relation("asked", Node)
ask = Message("ask", n, sender=node, receiver=desk)

def system(name, step):
    return System(name, "Nodes that ask.", tables=(
        Table(node, rows=(Row("ask", on=Call("ask"), when=tries(n) < 2,
                              do=tries(n).to(tries(n) + 1), send=ask(n)),)),
        Table(desk, rows=(
            Row("note", on=ask(n), when=~asked(n),
                do=[asked(n).to(True), total().to(total() + step)]),
            Ignore(ask(n), when=asked(n), why="it is noted"))),
    ), properties=(
        Always("every_node_is_counted", total() == count(n, asked(n))),
        Sometimes("most_have_asked", count(n, asked(n)) * 2 > size(Node)),
    ), final=forall(n, implies(tries(n) > 0, asked(n))),
    configurations={"default": Configuration({Node: 2})})

SYSTEM, WRONG = system("right", 1), system("wrong", 2)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "asks.py").write_text(SPEC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", [
    ["check"], ["lint"], ["fuzz", "--runs", "10"], ["sim"]])
@pytest.mark.usefixtures("folder")
def test_a_verb_reads_numbers(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb[0], "asks.py:SYSTEM", *verb[1:]]) == 0
    broken = main([verb[0], "asks.py:WRONG", *verb[1:]])
    assert broken == (0 if verb == ["lint"] else 1)
    assert verb == ["lint"] or "every_node_is_counted" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_mutants_of_numbers_are_tried_where_no_proof_can_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["mutate", "asks.py:SYSTEM", "--row", "note", "--no-cache", "--quiet", "--workers", "1"])
    told = capsys.readouterr().out
    assert "killed" in told
    assert main(["prove", "asks.py:SYSTEM", "--no-cache", "--quiet"]) == 2
    assert "no proof can say total = count(n: asked(n))" in capsys.readouterr().err


def test_an_agent_asks_about_numbers(folder: Path) -> None:
    checked, wrong, why = asked(
        folder, ("check", {"system": "asks.py:SYSTEM"}), ("check", {"system": "asks.py:WRONG"}),
        ("why_not", {"system": "asks.py:SYSTEM", "row": "ask(n0)", "path": ["ask(n0)", "ask(n0)"]}))
    assert checked[1].startswith("exit status 0\n")
    assert wrong[1].startswith("exit status 1\n")
    assert "tries(n0) < 2" in why[1]
