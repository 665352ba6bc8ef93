"""The command line as its users meet it: answers, exit status, and one line for what is wrong."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from pdproto.check import cache
from pdproto.check.checking import World
from pdproto.check.explore import Progress
from pdproto.check.report.progress import Reporter
from pdproto.cli import check as check_verb
from pdproto.cli.limits import free_bytes
from pdproto.cli.main import VERBS, entry_point, main, parser_for
from pdproto.cli.options import write
from pdproto.cli.reports import REPORTS
from pdproto.cli.systems import BUILT_IN
from tests.check.report.page_reader import PageReader, read_xml
from tests.cli.own_specs import PAGE
from tests.waiting import PATIENCE_S

EXAMPLES = [name for name, target in BUILT_IN.items() if ".examples." in target]

# As the installed command runs: the folder it is called from is not on Python's path.
COMMAND = (
    sys.executable, "-P", "-c", "from pdproto.cli.main import entry_point; entry_point()",
)  # fmt: skip

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's own folder with one spec in it, which is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # else it gets a __pycache__
    (tmp_path / "page.py").write_text(PAGE, encoding="utf-8")
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if not name.startswith(("pdproto", "numpy", "scipy", "rich")):
            del sys.modules[name]


def answer(capsys: Output, *arguments: str) -> dict[str, Any]:
    """What `pdproto check ... --json -` prints, which is JSON and nothing else."""
    main(["check", *arguments, "--json", "-", "--quiet", "--no-cache"])
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


def refusal(capsys: Output, *arguments: str) -> str:
    """The one line that a usage error is told in."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"pdproto: [^\n]+\n", err)
    return str(err).removeprefix("pdproto: ").rstrip("\n")


def verdicts(told: dict[str, Any]) -> dict[str, str]:
    return {finding["name"]: finding["verdict"] for finding in told["properties"]}


class TestAnswers:
    def test_a_system_that_holds(self, capsys: Output) -> None:
        assert main(["check", "two-phase-commit", "--quiet"]) == 0
        out, err = capsys.readouterr()
        assert "HOLDS  288 states" in out
        assert err == ""

    def test_deep_is_a_configuration(self, capsys: Output) -> None:
        deep = answer(capsys, "agreement-loss", "--configuration", "deep", "--property", "deadlock")
        assert deep["sizes"] == {"Rank": 2, "Life": 2, "Slot": 1, "Decision": 4}

    def test_a_system_that_does_not(self, capsys: Output) -> None:
        assert main(["check", "lock-server-broken", "--quiet"]) == 1
        assert "mutual_exclusion violated for c=c0, d=c1 after 7 steps" in capsys.readouterr().out

    def test_a_limit_leaves_the_answer_open(self, capsys: Output) -> None:
        assert main(["check", "lock-server", "--max-states", "1,000", "--quiet"]) == 3
        assert "stopped: the limit of 1,000 states was reached" in capsys.readouterr().out

    def test_json_has_the_keys_that_are_promised(self, capsys: Output) -> None:
        told = answer(capsys, "page.py:SYSTEM", "--size", "Worker=2")
        assert {
            "system", "sizes", "states", "transitions", "depth", "seconds", "complete",
            "properties", "rows_never_fired", "deadlocks",
        } <= set(told)  # fmt: skip
        for finding in told["properties"]:
            assert {"name", "kind", "verdict", "assurance", "trace_length"} <= set(finding)
        assert told["sizes"] == {"Worker": 2}
        # Both idle, either writing, both writing; each idle worker may write: 2 + 1 + 1.
        assert (told["states"], told["transitions"], told["depth"]) == (4, 4, 2)
        assert verdicts(told) == {
            "at_most_one": "violated", "deadlock": "holds", "every_message_is_answered": "holds"}
        assert [finding["trace_length"] for finding in told["properties"]] == [2, None, None]

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_the_number_of_workers_is_not_in_the_answer(self, capsys: Output, name: str) -> None:
        one, two = (answer(capsys, name, "--workers", workers) for workers in ("1", "2"))
        assert one.pop("seconds") > 0
        assert two.pop("seconds") > 0
        assert one == two

    def test_one_property_alone(self, capsys: Output) -> None:
        told = answer(capsys, "lock-server-broken", "--property", "the_lock_is_held", "deadlock")
        assert verdicts(told) == {"the_lock_is_held": "holds", "deadlock": "holds"}

    def test_an_assumption_of_fairness(self, capsys: Output) -> None:
        arguments = ("lock-server", "--property", "the_lock_comes_back", "--fairness")
        (finding,) = answer(capsys, *arguments, "detectors")["properties"]
        assert finding["note"] == "if safety nets never fire"
        assert finding["fairness"] == ["detectors"]
        arguments = ("two-phase-commit", "--property", "a_decision_arrives", "--fairness")
        (finding,) = answer(capsys, *arguments, "detectors", "--fairness", "timers")["properties"]
        assert finding["note"] == "if each fair row that stays enabled fires"
        assert finding["fairness"] == ["timers", "detectors"]

    def test_reductions_can_be_asked_for_and_refused(self, capsys: Output) -> None:
        small = answer(capsys, "two-phase-commit", "--symmetry", "--no-dead-bits")
        assert small["reductions"] == ["symmetry"]
        assert small["states"] < 288

    def test_faults_replace_those_of_the_configuration(self, capsys: Output) -> None:
        arguments = ("lock-server", "--size", "Client=1", "Round=1", "--faults")
        assert answer(capsys, *arguments, "lossy")["faults"] == ["lossy"]
        assert answer(capsys, *arguments, "none")["faults"] == []

    def test_it_says_when_the_engine_is_the_slow_one(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pdproto.check.native.available", lambda: False)
        assert main(["check", "two-phase-commit"]) == 0
        out, err = capsys.readouterr()
        assert "HOLDS  288 states" in out
        assert err.startswith("pdproto: no C compiler was found at installation")


class TestSystemAnywhere:
    """An option that takes several values does not swallow SYSTEM."""

    @pytest.mark.parametrize(
        "arguments",
        [
            ["page.py:SYSTEM", "--size", "Worker=2"],
            ["--size", "Worker=2", "page.py:SYSTEM"],
            ["--size", "Worker=2", "--quiet", "page.py:SYSTEM"],
            ["--size=Worker=2", "page.py:SYSTEM"],
            ["--property", "deadlock", "page.py:SYSTEM", "--size", "Worker=2"],
        ],
    )
    def test_any_order(self, capsys: Output, arguments: list[str]) -> None:
        assert answer(capsys, *arguments)["system"] == "page"

    def test_a_built_in_name_after_several_sizes(self, capsys: Output) -> None:
        told = answer(capsys, "--size", "Client=1", "Round=1", "lock-server")
        assert (told["system"], told["sizes"]) == ("lock-server", {"Client": 1, "Round": 1})

    def test_a_property_may_be_called_like_a_system(self, capsys: Output) -> None:
        told = answer(capsys, "two-phase-commit", "--property", "all_commit", "agreement")
        assert (told["system"], verdicts(told)["agreement"]) == ("two-phase-commit", "holds")

    def test_other_verbs_too(self, capsys: Output) -> None:
        assert main(["export", "--tla", "--size", "Participant=2", "two-phase-commit"]) == 0
        assert "two-phase-commit" in capsys.readouterr().out


class TestRefusals:
    """Every usage error is one line that names the cause and the fix, and exit status 2."""

    @pytest.mark.parametrize(
        "size", ["0", "-1", "2.5", "", "x", "1e3", "+3", " 3", "\N{ARABIC-INDIC DIGIT THREE}"],
    )
    def test_sizes_are_whole_numbers(self, capsys: Output, size: str) -> None:
        line = refusal(capsys, "check", "page.py:SYSTEM", "--size", f"Worker={size}")
        assert line == f"--size Worker=N: want a whole number of at least 1, not {size[:40]!r}"

    @pytest.mark.parametrize("option", ["--workers", "--max-states"])
    @pytest.mark.parametrize("number", ["0", "x", "2.5"])
    def test_so_are_counts(self, capsys: Output, option: str, number: str) -> None:
        line = refusal(capsys, "check", option, number)
        assert line.startswith(f"argument {option}: want a whole number of at least 1, not ")

    @pytest.mark.parametrize("memory", ["0", "-1", "nan", "inf", "1e400", "much"])
    def test_memory_is_a_quantity(self, capsys: Output, memory: str) -> None:
        line = refusal(capsys, "check", f"--max-memory={memory}")
        assert line.startswith(f"argument --max-memory: want GiB above 0, not {memory!r}")

    def test_a_folder_that_may_not_be_written_in(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        monkeypatch.setattr(os, "access", lambda path, _: path != folder)
        line = refusal(capsys, "check", "--json", "x.json")
        assert line == f"cannot write 'x.json': no permission to write in {folder}"

    def test_a_bug_of_our_own_is_owned(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(check_verb, "load", lambda name: name + 1)
        assert main(["check", "lock-server"]) == 4
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1].startswith("pdproto: this is a bug in pdproto: please report it")

    @pytest.mark.parametrize(
        ("missing", "extra"), [("torch", "kernels"), ("triton", "kernels"), ("matplotlib", "plot")]
    )
    def test_a_missing_package_is_named(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch, missing: str, extra: str
    ) -> None:
        def load(_: str) -> None:
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

        monkeypatch.setattr(check_verb, "load", load)
        line = refusal(capsys, "check", "lock-server")
        assert line == f"{missing} is not installed: pip install 'pdproto[{extra}]'"

    def test_memory_that_runs_out_is_no_bug(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def check(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(cache, "check", check)
        assert main(["check", "lock-server"]) == 3
        assert capsys.readouterr().err == (
            "pdproto: memory ran out: give smaller sizes with --size\n"
        )


class TestReports:
    def test_every_file_has_its_format(self, capsys: Output) -> None:
        Path("folder").mkdir()
        files = {kind: f"folder/report.{kind}" for kind in REPORTS}
        options = [part for kind, file in files.items() for part in (f"--{kind}", file)]
        assert main(["check", "lock-server-broken", "--quiet", *options]) == 1
        assert "mutual_exclusion violated" in capsys.readouterr().out  # files go beside
        text = {kind: Path(file).read_text(encoding="utf-8") for kind, file in files.items()}
        assert json.loads(text["json"])["verdict"] == "violated"
        assert json.loads(text["sarif"])["version"] == "2.1.0"
        suites = read_xml(text["junit"])
        assert suites.tag == "testsuites"
        assert len(suites.findall(".//failure")) == 1
        assert ("html", {"lang": "en"}) in PageReader(text["html"]).elements
        assert text["mermaid"].startswith("sequenceDiagram\n")
        assert sorted(os.listdir("folder")) == sorted(f"report.{kind}" for kind in files)

    @pytest.mark.parametrize("kind", REPORTS)
    def test_standard_output_is_the_report_alone(self, capsys: Output, kind: str) -> None:
        assert main(["check", "lock-server-broken", f"--{kind}", "-", "--quiet", "--no-cache"]) == 1
        printed = capsys.readouterr().out
        assert main(["check", "lock-server-broken", f"--{kind}", "file", "--quiet"]) == 1
        kept = Path("file").read_text(encoding="utf-8")
        seconds = re.compile(r"\d+\.\d+")  # the only thing that differs between the two
        assert seconds.sub("", printed).rstrip() == seconds.sub("", kept).rstrip()

    def test_a_diagram_of_nothing_is_not_written(self, capsys: Output) -> None:
        drawn = ["--property", "agreement", "--mermaid", "x.mmd"]
        assert main(["check", "two-phase-commit", "--quiet", *drawn]) == 0
        assert capsys.readouterr().err == (
            "pdproto: no property has a trace to draw: x.mmd is not written\n"
        )
        assert not Path("x.mmd").exists()

    def test_a_spec_that_prints_does_not_spoil_json(self, capsys: Output) -> None:
        Path("loud.py").write_text(f"{PAGE}\nprint('loud')\n", encoding="utf-8")
        assert answer(capsys, "loud.py:SYSTEM", "--size", "Worker=1")["system"] == "page"

    def test_a_file_is_whole_or_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("before", "report")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(Exception, match=r"^cannot write 'report': No space left on device$"):
            write("after", "report")
        assert Path("report").read_text(encoding="utf-8") == "before"
        assert sorted(os.listdir()) == ["page.py", "report"]

    def test_a_link_stays_a_link(self) -> None:
        Path("link").symlink_to("target")
        write("text", "link")
        assert Path("link").is_symlink()
        assert Path("target").read_text(encoding="utf-8") == "text"

    def test_a_device_or_a_pipe_is_not_replaced(self) -> None:
        os.mkfifo("pipe")
        reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
        write("text", "pipe")
        assert reader.communicate()[0] == "text"
        assert Path("pipe").is_fifo()

    def test_an_encoding_that_cannot_hold_the_result(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Output
    ) -> None:
        held = BytesIO()
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(held, encoding="ascii"))
        assert main(["export", "--markdown", "lock-server"]) == 2
        assert held.getvalue() == b""
        assert main(["check", "lock-server-broken", "--quiet"]) == 1
        assert b"--request(c0, r0)--" in held.getvalue()  # pictures have a plain form
        assert capsys.readouterr().err == (
            "pdproto: standard output accepts only ascii: write to a file, which is UTF-8\n"
        )

    def test_a_disk_that_is_full(self, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
        with open("/dev/full", "w", encoding="utf-8") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert main(["check", "two-phase-commit", "--quiet"]) == 2
            monkeypatch.undo()
            os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # its buffer must go somewhere
        assert capsys.readouterr().err == (
            "pdproto: cannot write to standard output: No space left on device\n"
        )


    @pytest.mark.parametrize(
        ("arguments", "status"),
        [
            (("check", "lock-server-broken", "--quiet", "--json", "x.json"), 1),
            (("check", "two-phase-commit", "--quiet"), 0),
            (("lint", "two-phase-commit"), 0),
        ],
    )
    def test_a_reader_that_leaves(
        self, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], status: int
    ) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "w", buffering=1, encoding="utf-8") as broken:
            monkeypatch.setattr(sys, "stdout", broken)
            assert main(arguments) == status
        assert Path("x.json").exists() == ("x.json" in arguments)


class TestMemory:
    """How much is taken where nothing is said: a share of what is free."""

    def test_caches_of_files_count_as_free(self) -> None:
        assert 0 < free_bytes() <= os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES

    def test_where_the_system_does_not_tell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: "MemTotal: 8 kB\n")
        assert 0 < free_bytes() <= os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES


class Interrupting(Reporter):
    """Ctrl-C at the first look at a search."""

    def show(self, progress: Progress) -> None:
        if not progress.done:
            raise KeyboardInterrupt


class TestInterrupts:
    """Ctrl-C: what is known is told, with status 3 unless something is violated already."""

    def test_a_search(self, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(check_verb, "Reporter", Interrupting)
        assert main(["check", "two-phase-commit", "--json", "x.json"]) == 3
        out, err = capsys.readouterr()
        assert "stopped: interrupted" in out
        assert err == "pdproto: interrupted: the answer is incomplete\n"
        told = json.loads(Path("x.json").read_text(encoding="utf-8"))
        assert (told["verdict"], told["complete"], told["stopped"]) == (
            "unknown", False, "interrupted",
        )  # fmt: skip
        assert set(verdicts(told).values()) == {"unknown"}

    @pytest.mark.parametrize(
        ("error", "stopped"),
        [
            (KeyboardInterrupt, "interrupted"),
            (MemoryError, "memory ran out while liveness was checked, if every timer fires"),
        ],
    )
    def test_liveness_leaves_safety_as_it_was_found(
        self,
        capsys: Output,
        monkeypatch: pytest.MonkeyPatch,
        error: type[BaseException],
        stopped: str,
    ) -> None:
        def interrupt(*_: object) -> None:
            raise error

        monkeypatch.setattr(World, "_leads_to", interrupt)
        told = answer(capsys, "two-phase-commit")
        assert (told["states"], told["stopped"], told["complete"]) == (288, stopped, False)
        assert verdicts(told) == {
            "agreement": "holds", "all_commit": "holds", "all_abort": "holds",
            "no_row_is_busy": "holds", "deadlock": "holds", "a_decision_arrives": "unknown",
            **({} if error is KeyboardInterrupt else {"every_message_is_answered": "holds"}),
        }  # fmt: skip

    def test_a_graph_past_the_memory_is_not_made(self, capsys: Output) -> None:
        told = answer(capsys, "two-phase-commit", "--size", "Participant=7", "--max-memory", "0.01")
        assert told["stopped"].startswith("liveness would take 0.0")
        assert told["stopped"].endswith(" GiB, past the limit of 0.01 GiB")
        assert verdicts(told)["agreement"] == "holds"
        assert verdicts(told)["a_decision_arrives"] == "unknown"

    @pytest.mark.parametrize("text", [
        "raise KeyboardInterrupt\n",
        "class Interrupted:\n"
        "    def __set_name__(self, *_: object) -> None:\n"
        "        raise KeyboardInterrupt\n"
        "class Spec:\n"
        "    attribute = Interrupted()\n",
    ])  # fmt: skip
    def test_an_import(self, capsys: Output, text: str) -> None:
        Path("slow.py").write_text(text, encoding="utf-8")
        assert main(["check", "slow.py:SYSTEM", "--json", "x.json"]) == 3
        assert capsys.readouterr().err == "pdproto: interrupted before the answer was complete\n"
        assert not Path("x.json").exists()


class TestHelp:
    @pytest.mark.parametrize("verb", VERBS)
    def test_every_option_is_explained(self, capsys: Output, verb: str) -> None:
        with pytest.raises(SystemExit) as caught:
            main([verb, "--help"])
        assert caught.value.code == 0
        told = capsys.readouterr().out
        assert told.startswith(f"usage: pdproto {verb} ")
        parser = parser_for([verb])
        (verbs,) = (action for action in parser._actions if action.dest == "verb")
        assert isinstance(verbs.choices, dict)
        for action in verbs.choices[verb]._actions:
            # Subcommands are explained one by one.
            assert action.help or action.choices, f"{verb}: {action.dest} has no help"

    def test_every_verb_is_explained(self, capsys: Output) -> None:
        with pytest.raises(SystemExit):
            main(["--help"])
        told = capsys.readouterr().out
        for verb in VERBS:
            assert re.search(rf"^  {verb} +[a-z]+ ", told, re.MULTILINE)
        lines = told.splitlines()
        assert (len(lines) <= 40, max(map(len, lines)) <= 80) == (True, True)  # a screen


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_streams_that_the_caller_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, None)
    monkeypatch.setattr(sys, "argv", ["pdproto", "check", "lock-server-broken"])
    with pytest.raises(SystemExit) as caught:
        entry_point()
    assert caught.value.code == 1
    for opened in (sys.stdout, sys.stderr):
        assert opened.name == os.devnull
        opened.close()


class TestProcess:
    """What only a process has: its status, signals, closed pipes and streams."""

    def test_a_first_answer(self) -> None:
        """From the folder of the spec, without a home, to a pipe."""
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        done = run("check", "page.py:SYSTEM", "--size", "Worker=2", env=environment)
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout.startswith("page  Worker=2\nOne page.\nVIOLATED  4 states")

    def test_a_module_in_the_folder(self) -> None:
        Path("mypkg").mkdir()
        Path("mypkg/specs.py").write_text(PAGE, encoding="utf-8")
        done = run("check", "mypkg.specs:SYSTEM", "--size", "Worker=1", "--quiet")
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_usage_error(self) -> None:
        done = run("check", "nothing.py:SYSTEM")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "pdproto: nothing.py does not exist\n"

    def test_ctrl_c_in_mid_run(self) -> None:
        """A search far too long to end: it is interrupted when it first shows its progress."""
        command = [*COMMAND, "check", "two-phase-commit", "--size", "Participant=14"]
        with subprocess.Popen(
            [*command, "--workers", "1", "--json", "x.json", "--html", "x.html"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # Who runs the tests in the background may have them ignore it, and their children too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        ) as process:  # fmt: skip
            assert process.stderr is not None
            assert process.stderr.readline().startswith("two-phase-commit: ")
            process.send_signal(signal.SIGINT)
            try:
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 3
        assert "stopped: interrupted" in out
        assert err.endswith("pdproto: interrupted: the answer is incomplete\n")
        assert not json.loads(Path("x.json").read_text(encoding="utf-8"))["complete"]
        PageReader(Path("x.html").read_text(encoding="utf-8"))
        assert sorted(os.listdir()) == ["page.py", "x.html", "x.json"]

    @pytest.mark.parametrize(
        ("arguments", "status"),
        [
            (("check", "lock-server-broken", "--json", "x.json"), 1),
            (("check", "lock-server-broken", "--html", "-"), 1),
            (("export", "--markdown", "lock-server"), 0),
        ],
    )
    def test_a_reader_that_leaves(self, arguments: tuple[str, ...], status: int) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (status, "")
        assert Path("x.json").exists() == ("x.json" in arguments)

    def test_closed_streams(self) -> None:
        closed = run("check", "lock-server-broken", preexec_fn=lambda: os.close(1))
        assert (closed.returncode, closed.stderr) == (1, "")
        closed = run("check", "nope", preexec_fn=lambda: os.close(2))
        assert (closed.returncode, closed.stdout) == (2, "")

    def test_two_runs_write_one_file(self) -> None:
        command = [*COMMAND, "check", "lock-server-broken", "--quiet", "--json", "x.json"]
        both = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
        assert [process.wait(PATIENCE_S) for process in both] == [1, 1]
        assert json.loads(Path("x.json").read_text(encoding="utf-8"))["verdict"] == "violated"
        assert sorted(os.listdir()) == ["page.py", "x.json"]
