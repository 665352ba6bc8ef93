"""`pdproto explore`, `step` and `run`: where they start, and what they print."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.designs import EVERY
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import SearchLimits
from pdproto.check.stepping.dialogue import STALE
from pdproto.cli import starting
from pdproto.cli.explore import PORT
from pdproto.cli.main import main, parser_for
from pdproto.cli.starting import start_at_beginning
from pdproto.spec.language import TRUE, Machine, Sometimes, System, Table
from tests.check.stepping.serving import INTERRUPTIBLE, asked, served
from tests.check.stepping.test_walk import walker
from tests.cli.own_specs import PAGE

SPEC = '''
from pdproto.spec.language import *

class Phase(State):
    IDLE = auto()
    DONE = auto()

job = Machine("job")
phase = job.function("phase", Phase)
SYSTEM = System("one-job", "A job ends.", tables=(
    Table(job, state=phase, rows=(Row("end", on=Call("end"), at=Phase.IDLE, to=Phase.DONE),)),
), properties=(Always("never_done", phase() != Phase.DONE),))
'''

lamp = Machine("lamp")
on = lamp.relation("on")
UNSEEN = System("unseen", "", (Table(lamp),), (Sometimes("is_on", on()),), final=TRUE)


def stepped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, commands: str, *given: str
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    status = main(["explore", "--text", *given])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_step_replays_commands_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = stepped(capsys, monkeypatch, "1\nl\nq\n1\n", "lock-server-broken")
    assert status == 0
    assert out.splitlines()[0] == "lock-server-broken: Client 2, Round 1"
    assert out.splitlines()[-2:] == ["  1  ask(c0, r0)", "1 step"]


def test_a_start_at_the_counterexample_of_a_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = stepped(capsys, monkeypatch, "l\n", "lock-server-broken", "--violation")
    assert "✗ mutual_exclusion: c=c0, d=c1" in out
    assert "  7  enter(c0, r0)" in out
    status, _, err = stepped(
        capsys, monkeypatch, "", "lock-server-broken", "--violation", "mutual_exclusoin")
    assert status == 2
    assert "has no property 'mutual_exclusoin' (perhaps mutual_exclusion?)" in err
    status, _, err = stepped(
        capsys, monkeypatch, "", "lock-server-broken", "--violation", "phase_edges")
    assert status == 2
    assert "phase_edges holds: there is no counterexample" in err


def test_a_mapping_that_reads_past_an_end_has_a_counterexample(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = stepped(capsys, monkeypatch, "", "tests.cli.test_own_processes:PAST_REFINES",
                             "--violation", "refines")
    assert status == 0
    assert "✗ refines_stays_in_range" in out


def test_a_start_at_no_counterexample_says_why_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a property holds is said only where every state was explored, and it does."""
    def told(system: str, name: str) -> str:
        status, _, err = stepped(capsys, monkeypatch, "", system, "--violation", name)
        assert status == 2
        return err

    unseen = told(f"{__name__}:UNSEEN", "is_on")
    assert "no single run shows that is_on is violated; start without --violation" in unseen
    few = CheckSettings(limits=SearchLimits(states_max=3))
    monkeypatch.setattr(starting, "check", lambda system, chosen, _: check(system, chosen, few))
    cut = told("lock-server", "mutual_exclusion")
    assert "no counterexample was found before the search ended (the limit of 3 states" in cut
    assert " holds" not in unseen + cut


@pytest.mark.parametrize("identity", ["B09", "B02"])
def test_a_start_at_a_defect_and_its_test_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    _, out, _ = stepped(capsys, monkeypatch, "t\n", "--bug", identity)
    bug = next(bug for bug in EVERY if bug.id == identity)
    assert f"✗ {bug.violates}" in out
    text = out[out.index("from pdproto"):]
    names: dict[str, object] = {}
    exec(compile(text, "test_it.py", "exec"), names)  # noqa: S102 - our own text
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    assert callable(test)
    test()


def test_a_start_in_a_topology(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first, _ = stepped(capsys, monkeypatch, "", "end-to-end-restart")
    _, second, _ = stepped(capsys, monkeypatch, "", "end-to-end-restart", "--topology", "2")
    assert first.splitlines()[0] != second.splitlines()[0]
    status, _, err = stepped(capsys, monkeypatch, "", "end-to-end-restart", "--topology", "3")
    assert status == 2
    assert "has 2 topologies at these sizes: there is none with the number 3" in err


@pytest.mark.parametrize(("given", "said"), [
    (["lock-server-broekn"], "'lock-server-broekn' is no built-in system (perhaps "),
    ([], "SYSTEM is missing: name one, or a defect with --bug ID"),
    (["--bug", "B0"], "there is no defect 'B0'"),
    (["transfer", "--bug", "B09"], "the defect B09 is in B09, not in transfer"),
    (["lock-server", "--path", "enter(c0,r0)"],
     "step 1: enter(c0,r0) cannot fire here: it needs message grant(c0, r0)"),
    (["lock-server", "--size", "Clinet=2"], "has no sort 'Clinet' (perhaps Client?)"),
])  # fmt: skip
def test_a_wrong_start_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    assert main(["explore", "--text", *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_run_counts_rows_and_tells_the_violation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "run.json"
    assert main(["run", "lock-server-broken", "--runs", "100", "--json", str(target)]) == 1
    out = capsys.readouterr().out
    assert "100 walks of seed 0" in out
    assert "mutual_exclusion violated after 7 steps" in out
    assert re.search(r"^ask_again +never ", out, flags=re.MULTILINE)
    told = json.loads(target.read_text())
    assert told["rows"]["ask"]["fired"] > 0
    assert len(told["violations"]["mutual_exclusion"]["path"]) == 7
    assert main(["run", "lock-server", "--runs", "5", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["violations"] == {}


def test_coverage_is_the_number_of_states_in_which_a_row_can_fire(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "x.json"
    given = ["check", "lock-server-broken", "--keep-going", "--quiet", "--no-cache"]
    assert main([*given, "--coverage", "--json", str(target)]) == 1
    out = capsys.readouterr().out
    counts = json.loads(target.read_text())["row_counts"]
    ground = walker().ground
    reached, pending = {0}, [0]
    while pending:
        for _, after in walker().successors(pending.pop()):
            if after not in reached:
                reached.add(after)
                pending.append(after)
    for name in ("ask", "give", "expire"):
        expected = sum(row.action.guard.holds(state) for state in reached
                       for row in ground.rows if row.row.name == name)
        assert counts[name] == expected
        assert re.search(rf"^{name} +{expected:,} ", out, flags=re.MULTILINE)
    assert main(given) == 1
    assert "can fire" not in capsys.readouterr().out
    assert main(["check", "--coverage"]) == 2
    assert "--coverage needs the name of a system" in capsys.readouterr().err


def test_a_graph_has_every_state_and_transition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--dot", "lock-server-broken"]) == 0
    text = capsys.readouterr().out
    nodes = re.findall(r"^    s(\d+) \[", text, flags=re.MULTILINE)
    assert len(nodes) == len(set(nodes)) == 55
    edges = re.findall(r"^    s\d+ -> s\d+ \[label=\"([^\"]+)\"\];$", text, flags=re.MULTILINE)
    assert len(edges) == 118
    assert "ask(c0, r0)" in edges
    assert re.search(r'label="phase\(c0\) = holding\\nphase\(c1\) = holding.*mutual_exclusion", '
                     r"color=red", text)
    assert main(["export", "--dot", "lock-server-broken", "--max-states", "54"]) == 2
    assert "has over 54 states at these sizes" in capsys.readouterr().err


def test_a_system_in_a_file_is_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "job.py:SYSTEM", "--runs", "1"]) == 1
    out = capsys.readouterr().out
    assert "never_done violated after 1 step" in out
    assert "deadlock violated after 1 step" in out
    _, out, _ = stepped(capsys, monkeypatch, "1\nt\n", "job.py:SYSTEM")
    text = out[out.index("from pdproto.testing"):]
    assert 'run = walk("job.py:SYSTEM", [' in text
    names: dict[str, object] = {}
    exec(compile(text, "test_it.py", "exec"), names)  # noqa: S102 - our own text
    test = names["test_a_run_of_one_job"]
    assert callable(test)
    test()


def test_explore_prints_its_address_and_ends_with_ctrl_c() -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "explore", "lock-server-broken",
               "--violation", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(
                r"lock-server-broken: (http://127\.0\.0\.1:\d+/)#(\S+)  \(Ctrl-C ends\)\n", line)
            assert found
            status, view = asked(found[1], "view", {"path": found[2].split(";")})
            assert (status, len(view["path"])) == (200, 7)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_nothing_is_told_of_tables_that_have_been_edited_since(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red: the page and the dialogue went on with the tables as they had been."""
    spec = tmp_path / "page.py"
    spec.write_text(PAGE)
    name = f"{spec}:SYSTEM"

    def edited() -> Iterator[str]:
        yield "p\n"
        spec.write_text(PAGE.replace("to=Phase.WRITING", "to=Phase.IDLE"))
        os.utime(spec, (1, 1))
        yield "write(w0)\n"

    lines = edited()
    monkeypatch.setattr("builtins.input", lambda _: next(lines).rstrip())
    assert main(["explore", name, "--text", "--size", "Worker=2"]) == 3
    shown = capsys.readouterr()
    assert "page.py has been saved since: start `pdproto explore` again" in shown.err
    assert "idle → writing" not in shown.out
    begun = start_at_beginning(parser_for(["explore"]).parse_args(
        ["explore", name, "--size", "Worker=2"])).walker
    saved = [""]
    with served(begun, changed=lambda: saved[0]) as address:
        assert asked(address, "view", {"path": []})[0] == 200
        saved = ["page.py"]
        status, told = asked(address, "view", {"path": []})
        assert (status, told["error"]) == (409, STALE.format("page.py"))


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_explore_refuses_a_port_that_is_none(
    capsys: pytest.CaptureFixture[str], port: str
) -> None:
    assert main(["explore", "lock-server", f"--port={port}"]) == 2
    assert f"want a port from 0 to 65,535, not '{port}'" in capsys.readouterr().err
    assert 0 < PORT < 65_536
