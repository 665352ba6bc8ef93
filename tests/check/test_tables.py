"""The documentation of a spec: its parts, its pictures, and that the committed copies are fresh."""

import subprocess
from pathlib import Path

import pytest

from pdproto.check.diagrams import message_diagram, state_diagram
from pdproto.check.tables import document
from pdproto.cli.export import page as page_of
from pdproto.cli.main import main
from pdproto.cli.systems import BUILT_IN
from pdproto.spec.examples import lock_server, ring_election, two_phase_commit
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Rigid,
    Row,
    Sort,
    State,
    System,
    Table,
    Timer,
    auto,
    forall,
)
from tests.docs.table_pages import COMMITTED, FOLDER, path


class Page(Sort):
    """What is
    written."""


class Line(Sort, ordered=True):
    pass


class Copy(State):
    NONE = auto()
    POSTED = auto()
    LANDED = auto()


page, line = Page("page"), Line("line")


def writer_system() -> System:
    """One of everything that the examples do not have."""
    writer, engine = Machine("writer", page), Machine("engine", page)
    network = Machine("network", world=True)
    copy = writer.function("copy", Copy, edges={Copy.NONE: (Copy.POSTED,), Copy.POSTED: ()})
    copy.shared_with(engine, writes=(Copy.LANDED,))
    listed = writer.relation("listed", Line)
    note = Message("note", page, sender=writer, receiver=engine, carries=(listed,), reliable=True)
    rumour = Message("rumour", sender=network, receiver=writer)
    holds = Rigid("holds", page, line, visible_to=(writer,))
    writes = Table(
        writer,
        state=copy,
        rows=(
            Row(
                "post",
                on=Call("post"),
                at=Copy.NONE,
                to=Copy.POSTED,
                choose=(line,),
                when=holds(page, line),
                do=[listed(page, line).to(True)],
                send=[note(page)],
            ),
            Row(
                "give_up", on=Timer("gone", detector=True), at=(Copy.NONE, Copy.POSTED), fair=False
            ),
            Ignore(rumour(), why="a rumour | nothing else"),
        ),
    )
    works = Table(
        engine, rows=(Row("land", when=copy(page) == Copy.POSTED, do=[copy(page).to(Copy.LANDED)]),)
    )
    reset = Table(writer, state=copy, rows=(Row("reset", to=Copy.NONE, why="power fails"),))
    return System(
        "writer",
        "Pages are written.",
        tables=(writes, works),
        properties=(
            OnRow("only_posted", "land", copy(page) == Copy.POSTED),
            LeadsTo("it_lands", copy(page) == Copy.POSTED, copy(page) == Copy.LANDED),
            Always("plain", copy(page) != Copy.NONE, why="either | or"),
        ),
        faults={"power": (reset, Table(network, rows=()))},
        axioms={"everywhere": forall(line, holds(page, line))},
        configurations={
            "default": Configuration({Page: 1, Line: 2}, faults=("power",), dead_bits=True)
        },
    )


def lines_of(text: str) -> set[str]:
    return set(text.splitlines())


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_pages_are_up_to_date(name: str) -> None:
    """If this fails, run `make docs` and look at it."""
    assert path(name).read_text(encoding="utf-8") == page_of(name)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_system_has_a_page(name: str) -> None:
    assert page_of(name).startswith(f"# {name}\n")


def test_nothing_is_committed_that_is_not_compared() -> None:
    """Git ignores the pages of the others, which `make docs-site` writes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", FOLDER],
        capture_output=True, text=True, check=True).stdout.split()
    assert {Path(name).stem for name in listed} == set(COMMITTED)


def test_no_line_of_the_source_is_named() -> None:
    assert ".py" not in document(two_phase_commit.SYSTEM)


def test_states_go_down_and_triggers_across() -> None:
    text = document(two_phase_commit.SYSTEM)
    assert (
        "| `decision` | on `prepared(p)` | by itself | call `abort` |\n"
        "| --- | --- | --- | --- |\n"
        "| **open** | hear | decide_commit → commit | decide_abort → abort |\n"
        "| **commit** | - (1) |  |  |\n"
        "| **abort** | - (1) |  |  |\n"
        "\n"
        "1. the coordinator has decided\n"
    ) in text


def test_rows_on_one_message_share_a_column() -> None:
    text = document(ring_election.SYSTEM)
    assert "| `role` | call `start` | on `propose(p, n, k)` | on `elected(p, n, k)` |" in text
    assert "| **candidate** |  | pass_on → beaten<br>- (3)<br>win → leader | reject (2) |" in text


def test_a_row_in_full() -> None:
    assert (
        "ask: call lock, idle -> waiting, chooses r\n"
        "    when  lease(c, r) = unused\n"
        "    when  for all s: s before r implies lease(c, s) = spent\n"
        "    do    lease(c, r) := current\n"
        "    send  request(c, r)\n"
    ) in document(lock_server.SYSTEM)


def test_sections_that_only_some_systems_have() -> None:
    text = document(writer_system())
    assert lines_of(text) >= {
        "| `Page` | What is written. | `p0`, `p1`, ... |",
        "| `Line`, in order |  | `l0`, `l1`, ... |",
        "| `holds(Page, Line)` | writer | every interpretation |",
        "* axiom **everywhere**: `for all line: holds(page, line)`",
        "| `copy(Page)` | none, posted, landed | none → posted; posted → nothing |",
        "| `listed(Page, Line)` | false, true | any |",
        "* `copy` is shared with engine, which alone writes landed",
        "| `note(page)` | writer `page` | engine `page` | `listed` | reliable |",
        "| **landed** |  |  | - (1) |",
        "1. a rumour | nothing else",
        "give_up: timer gone, a failure detector, in none, posted, not fair",
        "ignore: on rumour()",
        "|  | by itself |",
        "| any state | land |",
        "* **only_posted**<br>whenever `land` can fire, `copy(page) = posted`",
        "* **it_lands**<br>`copy(page) = posted` leads to `copy(page) = landed`, "
        "when every timer fires",
        "* **plain**: either \\| or<br>always `copy(page) != none`",
        "Of writer `page`:",
        "reset: by itself, any state -> none",
        "| default | Page 1, Line 2 | power | dead bits |",
    }


def test_sections_that_a_system_lacks_are_left_out() -> None:
    lamp = Machine("lamp")
    text = document(System("lamp", "A lamp.", (Table(lamp),)))
    headings = [part for part in text.splitlines() if part.startswith("#")]
    assert headings == ["# lamp", "## Machines", "### lamp", "## Table of lamp"]


def test_a_given_interpretation_may_come_from_a_configuration() -> None:
    near = Rigid("near", page, line)
    lamp = Machine("lamp")
    rows = (Row("shine", choose=(page, line), when=near(page, line)),)
    chosen = Configuration({Page: 1, Line: 1}, given={near: lambda _: {(0, 0)}})
    system = System("lamp", "", (Table(lamp, rows=rows),), configurations={"default": chosen})
    assert "| `near(Page, Line)` | all | as given |" in document(system)


def test_a_state_diagram_has_the_moves_and_merges_their_rows() -> None:
    assert state_diagram(two_phase_commit.PARTICIPANT) == (
        "stateDiagram-v2\n"
        '    state "working" as s0\n'
        '    state "prepared" as s1\n'
        '    state "committed" as s2\n'
        '    state "aborted" as s3\n'
        "    [*] --> s0\n"
        "    s0 --> s1: prepare\n"
        "    s0 --> s3: give_up, aborted\n"
        "    s0 --> s2: committed\n"
        "    s1 --> s2: committed\n"
        "    s3 --> s2: committed\n"
        "    s1 --> s3: aborted\n"
        "    s2 --> s3: aborted"
    )
    with pytest.raises(ValueError, match="the table of engine has no state variable"):
        state_diagram(writer_system().tables[1])


def test_a_message_diagram_leaves_the_world_out() -> None:
    assert message_diagram(writer_system()) == (
        "flowchart LR\n"
        '    m0["writer<br/>one for each Page"]\n'
        '    m1["engine<br/>one for each Page"]\n'
        '    m0 -- "note" --> m1'
    )
    assert '    m1 -- "commit, abort" --> m0' in message_diagram(two_phase_commit.SYSTEM)


def test_the_verb_writes_to_a_file_or_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "lock-server.md"
    assert main(["export", "--markdown", "lock-server", "--output", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == document(lock_server.SYSTEM)
    assert capsys.readouterr().out == ""
    assert main(["export", "--markdown", "lock-server"]) == 0
    assert capsys.readouterr().out == document(lock_server.SYSTEM)
