"""`--trace` of `explore` and `step`: a recorded run or counterexample as a path of the system."""

import io
import json
import re
from pathlib import Path

import pytest

from lab.__main__ import main as of_the_laboratory
from pdproto.check.rigid import interpretations
from pdproto.check.stepping.recorded import RecordedRun, RecordError, recorded
from pdproto.check.stepping.walk import PathError, Walker
from pdproto.cli.main import main
from pdproto.spec.examples.two_phase_commit import SYSTEM, Participant
from pdproto.spec.handoff.transfer import SYSTEM as TRANSFER
from pdproto.spec.language.symbols import Sizes
from pdproto.spec.language.system import Configuration
from tests.check.trace.two_phase_traces import record

Output = pytest.CaptureFixture[str]
BY_DEVICES = {"grant", "land", "reuse"}  # rows that no trace of a node has
COMMITTED = [
    "prepare(p0)", "prepare(p1)", "hear(p0)", "hear(p1)", "decide_commit",
    "committed(p0)", "committed(p1)",
]


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    return record(tmp_path)


def followed(run: RecordedRun) -> list[str]:
    """The rows of the run in a walker of its size."""
    sizes: Sizes = {Participant: run.sizes["Participant"]}
    walker = Walker(SYSTEM, Configuration(sizes),
                    next(iter(interpretations(SYSTEM, sizes, Configuration(sizes)))))
    return [walker.label(move.row) for move in run.follow(walker)]


def stepped(
    capsys: Output, monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO("l\n"))
    status = main(["explore", "--text", *map(str, arguments)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.mark.parametrize("order", [1, -1])
def test_traces_of_processes_are_one_path(traces: list[Path], order: int) -> None:
    """Whatever the order of the files: messages are sent before they are received."""
    run = recorded(SYSTEM, traces[::order])
    assert run.sizes == {"Participant": 2}
    assert run.ended == ""
    rows = followed(run)
    assert sorted(rows) == sorted(COMMITTED)
    assert rows.index("hear(p0)") > rows.index("prepare(p0)")
    assert rows.index("committed(p1)") > rows.index("decide_commit")


def test_elements_are_numbered_as_they_occur(traces: list[Path]) -> None:
    text = traces[1].read_text()
    traces[1].write_text(text.replace('"ann"', '"zoe"'))
    traces[0].write_text(traces[0].read_text().replace('"ann"', '"zoe"'))
    run = recorded(SYSTEM, traces)
    assert run.numbers.of((Participant, Participant), ("zoe", "bob")) == (0, 1)
    assert sorted(followed(run)) == sorted(COMMITTED)


def test_a_rejected_line_ends_the_path(
    traces: list[Path], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator decides although it has not heard Bob."""
    lines = [json.loads(line) for line in traces[0].read_text().splitlines()]
    kept = [line for line in lines if line.get("with") != {"p": "bob"}]
    assert len(kept) == len(lines) - 1
    traces[0].write_text("".join(json.dumps({**line, "n": n}) + "\n"
                                 for n, line in enumerate(kept, 1)))
    status, out, err = stepped(capsys, monkeypatch, "two-phase-commit", "--trace", *traces)
    assert status == 0
    assert err == (f"pdproto: {traces[0]}, line 3: decide_commit cannot fire here; the run up to "
                   f"this line is shown\n")
    assert "hear(p0)" in out
    assert "decide_commit" not in out.split("hear(p0)")[1]


def test_a_run_that_the_whole_system_cannot_take_is_told(traces: list[Path]) -> None:
    """With a third participant nobody may commit yet."""
    run = recorded(SYSTEM, traces)
    sizes: Sizes = {Participant: 3}
    with pytest.raises(PathError, match=r"coordinator\.jsonl, line 4: decide_commit.* cannot fire"):
        run.follow(Walker(SYSTEM, Configuration(sizes)))


def test_a_whole_hand_over_is_one_path(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes in virtual time: the sink waits for the engine's writes, which its trace does not say.

    The source does not know the life when it begins: its first line leaves it open.
    """
    assert of_the_laboratory(
        ["cluster", "--seed", "0", "--requests", "1", "--prefill", "1", "--decode", "1",
         "--trace", str(tmp_path), "--quiet"]
    ) == 0
    capsys.readouterr()
    traces = sorted((tmp_path / "seed-0").glob("*.jsonl"))
    status, out, err = stepped(capsys, monkeypatch, "transfer", "--trace", *traces)
    assert (status, err) == (0, "")
    told = re.findall(r"^ *\d+  (\w+)\(", out, flags=re.MULTILINE)
    assert told[-17:] == [
        "begin_receive", "grant", "publish_memory", "begin_send", "meet", "learn", "send", "post",
        "land", "send_more", "post", "land", "succeed", "release_kv", "take_part", "commit",
        "finish",
    ]


@pytest.fixture(scope="module")
def hand_overs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Traces of four lives, between two prefill ranks and two decode ranks."""
    folder = tmp_path_factory.mktemp("hand_overs")
    assert of_the_laboratory(
        ["cluster", "--seed", "3", "--requests", "4", "--prefill", "2", "--decode", "2",
         "--trace", str(folder), "--quiet"]
    ) == 0
    return sorted((folder / "seed-3").glob("*.jsonl"))


def rows_of(traces: list[Path], life: str) -> list[tuple[str, str]]:
    """The node and the row of each line of that life that fires a row, in each file's order."""
    lines = [json.loads(line) for path in traces for line in path.read_text().splitlines()]
    ends = {(line["node"], line["end"]) for line in lines
            if json.dumps(line.get("with", {}).get("h")) == life}
    return [(line["node"], line["row"]) for line in lines
            if "row" in line and (line["node"], line["end"]) in ends]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_one_life_of_several_is_one_path(
    hand_overs: list[Path], capsys: Output, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each row of that life is a step, once, and no row of another life is."""
    run = recorded(TRANSFER, hand_overs, number)
    named = run.lives[number - 1]
    capsys.readouterr()
    status, out, err = stepped(
        capsys, monkeypatch, "transfer", "--trace", *hand_overs, "--life", number)
    assert (status, err) == (0, (
        f"pdproto: the traces have 4 lives; life {number} is shown ({named}), and --life N shows "
        f"another\n"))
    assert f", life {number} of 4 ({named})\n" in out
    path = re.findall(r"^ *\d+  (\w+)\(", out.split("a run may end here")[-1], flags=re.MULTILINE)
    fired = [name for _, name in rows_of(hand_overs, named)]
    assert len(fired) >= 13
    assert sorted(name for name in path if name not in BY_DEVICES) == sorted(fired)


def test_lives_are_counted_as_they_begin(hand_overs: list[Path]) -> None:
    run = recorded(TRANSFER, hand_overs)
    assert run.life == 1
    assert len(set(run.lives)) == 4
    assert sorted(run.lives) == sorted({
        json.dumps(line["with"]["h"])
        for path in hand_overs for line in map(json.loads, path.read_text().splitlines())
        if line.get("with", {}).get("h")})


def test_the_life_of_the_rejected_line_is_shown(
    hand_overs: list[Path], tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last life of a sink commits without its part: its line for `take_part` is left out."""
    path = next(path for path in hand_overs if path.name.startswith("d1"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = max(n for n, line in enumerate(lines) if line.get("row") == "take_part")
    named = json.dumps(lines[last]["with"]["h"])
    del lines[last]
    changed = tmp_path / path.name
    changed.write_text("".join(json.dumps({**line, "n": n}) + "\n"
                               for n, line in enumerate(lines, 1)))
    others = [one for one in hand_overs if one != path]
    status, out, err = stepped(capsys, monkeypatch, "transfer", "--trace", *others, changed)
    assert status == 0, err
    assert re.match(rf"pdproto: {re.escape(str(changed))}, line {last + 1}: commit cannot fire "
                    rf"here; the run up to this line is shown\n"
                    rf"pdproto: the traces have \d lives; life \d is shown "
                    rf"\({re.escape(named)}\)", err)
    assert "commit" not in out.split("a run may end here")[-1]


def test_a_life_that_is_not_there_is_refused(
    hand_overs: list[Path], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = stepped(capsys, monkeypatch, "transfer", "--trace", *hand_overs, "--life", 5)
    assert (status, err) == (
        2, "pdproto: --life 5: there is no life 5: the traces have 4\n")


def test_other_machines_have_no_lives_to_choose(traces: list[Path]) -> None:
    with pytest.raises(RecordError, match=r"^only traces of hand-overs have lives to choose from$"):
        recorded(SYSTEM, traces, 1)


def test_a_counterexample_in_json(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.json"
    assert main(["check", "lock-server-broken", "--quiet", "--no-cache", "--size", "Client=3",
                 "--json", str(target)]) == 1
    capsys.readouterr()
    status, out, err = stepped(capsys, monkeypatch, "lock-server-broken", "--trace", target)
    assert (status, err) == (0, "")
    assert out.startswith("lock-server-broken: Client 3, Round 1")
    assert "✗ mutual_exclusion: " in out
    assert "  7  enter(" in out
    status, _, err = stepped(capsys, monkeypatch, "lock-server", "--trace", target)
    assert status == 2
    assert err == (f"pdproto: --trace: {target} is about lock-server-broken, and not about "
                   f"lock-server\n")


@pytest.mark.parametrize(("text", "told"), [
    ("", "no row has fired in this trace"),
    ("def f(): ...\n", "line 1: this is not a line of a trace"),
    ('{"properties": []}', "is no report of pdproto: it lacks 'system'"),
    ('{"system": "two-phase-commit", "sizes": {}, "faults": [], "properties": []}',
     "has no trace: it needs a result with a counterexample"),
])
def test_a_file_without_a_run_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(RecordError, match=told):
        recorded(SYSTEM, [path])


def test_a_size_below_that_of_the_run_is_refused(
    traces: list[Path], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = stepped(capsys, monkeypatch, "two-phase-commit", "--trace", *traces,
                             "--size", "Participant=1")
    assert (status, err) == (
        2, "pdproto: --size Participant=1: the recorded run names 2 elements\n")
