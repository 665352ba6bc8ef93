"""`--shard I/N` and `--merge`: the shards of a run say together what the run says."""

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.__main__ import main
from lab.designs import EVERY
from lab.verbs import bugs
from pdproto.check.mutate.processes import known_trials
from pdproto.check.mutate.trials import Trials
from pdproto.check.shards import Shard
from pdproto.cli import check_all, prove
from tests.cli.test_mutate import SMALL

Output = pytest.CaptureFixture[str]

COUNT: Final = 3
SYSTEMS: Final = ("two-phase-commit", "lock-server", "ring-election")
RUNS: Final = {
    "check": ("check",),
    "check a violation": ("check",),
    "prove": ("prove", "two-phase-commit", "--workers", "1", "--no-cache"),
    "mutate": ("mutate", "lamp.py:SYSTEM", "--workers", "1"),
    "mutate a sample": ("mutate", "lamp.py:SYSTEM", "--workers", "1", "--sample", "5"),
    "bugs": ("bugs",),
    "cluster": ("cluster", "--seeds", "5", "--requests", "10", "--faults", "loss"),
    "cluster a violation": ("cluster", "--seeds", "3", "--requests", "30", "--pp", "2",
                            "--faults", "abort,hang", "--bug", "B22"),
}
runs = pytest.mark.parametrize("run", RUNS)


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A hand-over of three systems, a catalogue of a few defects, and a spec in this folder."""
    monkeypatch.chdir(tmp_path)
    broken = ("lock-server-broken",) if "violation" in request.node.name else ()
    monkeypatch.setattr(check_all, "HANDOFF", (*SYSTEMS, *broken))
    monkeypatch.setattr(bugs, "EVERY", tuple(one for one in EVERY if one.id == "first-come"))
    (tmp_path / "lamp.py").write_text(SMALL, encoding="utf-8")


def command(*arguments: str) -> int:
    """The exit status. As in a process of its own, the spec is imported for the first time."""
    sys.modules.pop("lamp", None)
    known_trials.cache_clear()
    return main(arguments)


def shards(run: Sequence[str], count: int = COUNT) -> tuple[list[str], list[int]]:
    """The files of all shards, and their exit statuses."""
    files = [f"{number}.json" for number in range(1, count + 1)]
    statuses = [command(*run, "--shard", f"{number}/{count}", "--answers", file, "--quiet")
                for number, file in enumerate(files, 1)]
    return files, statuses


def asked(capsys: Output, *arguments: str) -> tuple[int, Any]:
    """The exit status, and the JSON without times."""
    capsys.readouterr()
    status = command(*arguments, "--json", "-")
    text = re.sub(r'"(seconds|recalled)": [^,}]+', r'"\1": 0', capsys.readouterr().out)
    return status, json.loads(text)


@given(st.integers(1, 20), st.text())
def test_each_task_belongs_to_one_shard(count: int, task: str) -> None:
    owners = [n for n in range(1, count + 1) if Shard(n, count).has(task)]
    assert len(owners) == 1


def test_shards_are_about_equal() -> None:
    owners = Counter(n for task in range(3_000) for n in (1, 2, 3) if Shard(n, 3).has(str(task)))
    assert all(900 < owners[number] < 1_100 for number in (1, 2, 3))


@runs
def test_together_they_say_what_the_whole_run_says(run: str, capsys: Output) -> None:
    files, statuses = shards(RUNS[run])
    whole, said = asked(capsys, *RUNS[run], "--quiet")
    together, merged = asked(capsys, RUNS[run][0], "--merge", *reversed(files))
    assert (together, merged) == (whole, said)
    assert max(statuses) == (3 if run == "prove" else whole)
    assert whole == 1 or "violation" not in run


@runs
def test_without_one_of_them_nothing_holds(run: str, capsys: Output) -> None:
    """Unless one that is there has found a violation."""
    files, statuses = shards(RUNS[run], 2)
    for file, status, missing in zip(files, statuses, reversed(files), strict=True):
        if not tasks_in(missing):
            continue
        capsys.readouterr()
        assert command(RUNS[run][0], "--merge", file) == (status or 3)
        said = capsys.readouterr()
        told = " ".join((said.out + said.err).split())
        assert "HOLDS" not in told
        assert status or f"shard {missing[0]}/2 is missing" in told


def tasks_in(file: str) -> int:
    """The number of answers in a file."""
    answers = json.loads(Path(file).read_text(encoding="utf-8"))["answers"]
    return sum(len(one.get("judged", one.get("answers", "1"))) for one in answers)


def test_an_interrupted_shard_is_incomplete(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Trials.judged

    def interrupted(self: Trials, mutant: Any) -> Any:
        if mutant.number == 5:
            raise KeyboardInterrupt
        return judged(self, mutant)

    with monkeypatch.context() as patch:
        patch.setattr(Trials, "judged", interrupted)
        command(*RUNS["mutate"], "--shard", "1/1", "--quiet", "--no-cache")
    capsys.readouterr()
    assert command("mutate", "--merge", "mutate-1-of-1.json") == 3
    told = capsys.readouterr().err
    assert "incomplete: shard 1/1 is incomplete; 6 mutants were not tried" in told


def test_a_failed_obligation_fails_the_whole(capsys: Output) -> None:
    wrong = ("prove", "lock-server-broken", "--property", "mutual_exclusion", "--workers", "1",
             "--no-cache")
    files, statuses = shards(wrong, 2)
    assert "nothing is violated" not in capsys.readouterr().out
    whole, said = asked(capsys, *wrong, "--quiet")
    assert asked(capsys, "prove", "--merge", *files) == (whole, said)
    assert 1 in statuses
    assert whole == 1


@pytest.mark.parametrize("part", ["1/2", "2/2"])
def test_a_shard_proves_nothing(part: str, capsys: Output) -> None:
    """Each of its obligations is met, and assumes claims whose obligations are in the other."""
    assert command(*RUNS["prove"], "--shard", part, "--quiet") == 3
    assert (f"shard {part}: a part proves nothing; `python -m lab prove --merge` puts"
            in capsys.readouterr().out)


def test_a_shard_that_is_the_whole_proves_all(capsys: Output) -> None:
    assert command(*RUNS["prove"], "--shard", "1/1", "--quiet") == 0
    assert "shard 1/1: nothing is violated here" in capsys.readouterr().out


def test_no_shard_records_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has proved a part, and `pdproto check` would report a record as the whole."""
    monkeypatch.setattr(prove, "remember", lambda *_: pytest.fail("it has recorded a part"))
    shards(("prove", "two-phase-commit", "--workers", "1"))


class TestRefused:
    def edited(self, file: str, **changes: Any) -> None:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        content["question"] |= changes
        Path(file).write_text(json.dumps(content), encoding="utf-8")

    def refusal(self, capsys: Output, *files: str, verb: str = "cluster") -> str:
        capsys.readouterr()
        assert command(verb, "--merge", *files) == 2
        said = capsys.readouterr()
        assert not said.out
        (line,) = said.err.splitlines()
        return line.removeprefix("pdproto: ")

    @pytest.fixture
    def two(self) -> list[str]:
        return shards(("cluster", "--seeds", "2", "--requests", "5"), 2)[0]

    @pytest.mark.parametrize(("change", "line"), [
        ({"version": "0.0.9"}, "2.json is of pdproto 0.0.9, and 1.json of pdproto 0.1.0"),
        ({"code": "another"}, "2.json was written by other code of pdproto than 1.json"),
        ({"arguments": ["--seeds", "3"]}, "2.json answers `cluster --seeds 3`, and 1.json "
                                          "`cluster --seeds 2 --requests 5`"),
        ({"verb": "bugs"}, "2.json answers `bugs --seeds 2 --requests 5`"),
        ({"tables": "others"}, "2.json is about other tables than 1.json"),
    ])
    def test_shards_of_another_run(
        self, two: list[str], change: dict[str, Any], line: str, capsys: Output
    ) -> None:
        self.edited(two[1], **change)
        assert self.refusal(capsys, *two).startswith(line)

    def test_the_code_here_is_another(self, two: list[str], capsys: Output) -> None:
        for file in two:
            self.edited(file, code="another")
        assert "1.json is of pdproto 0.1.0 with other code" in self.refusal(capsys, *two)

    def test_one_shard_twice(self, two: list[str], capsys: Output) -> None:
        Path("again.json").write_bytes(Path(two[0]).read_bytes())
        assert "1.json and again.json are both shard 1/2" in self.refusal(
            capsys, two[0], "again.json")

    def test_another_number_of_shards(self, two: list[str], capsys: Output) -> None:
        files, _ = shards(("cluster", "--seeds", "2", "--requests", "5"), 1)
        assert f"{two[1]} is shard 2/2, and {files[0]} is shard 1/1" in self.refusal(
            capsys, files[0], two[1])

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"question": 3}'])
    def test_no_file_of_answers(self, content: bytes, capsys: Output) -> None:
        Path("other.json").write_bytes(content)
        assert "other.json: it is no file of `--shard`" in self.refusal(capsys, "other.json")

    def test_answers_of_another_kind(self, two: list[str], capsys: Output) -> None:
        content = json.loads(Path(two[0]).read_text(encoding="utf-8"))
        content["answers"] = [{"plan": 3}]
        Path(two[0]).write_bytes(msgspec.json.encode(content))
        assert "1.json: it is no file of `--shard`" in self.refusal(capsys, *two)

    def test_a_file_that_is_not_there(self, capsys: Output) -> None:
        assert "none.json" in self.refusal(capsys, "none.json")

    @pytest.mark.parametrize("run", ["mutate", "prove"])
    def test_tables_that_have_changed(self, run: str, capsys: Output) -> None:
        """Between two shards, and between the shards and the merge."""
        asked_for = (run, "lamp.py:SYSTEM", "--workers", "1", "--no-cache")
        before, _ = shards(asked_for, 2)
        for file in before:
            Path(file).rename(f"before-{file}")
        text = Path("lamp.py").read_text(encoding="utf-8")
        Path("lamp.py").write_text(text.replace("nobody_dreams", "all_are_awake"),
                                   encoding="utf-8")
        shards(asked_for, 2)
        assert "2.json is about other tables than before-1.json" in self.refusal(
            capsys, "before-1.json", "2.json", verb=run)
        assert ("before-1.json is about other tables than those that `"
                f"{run} lamp.py:SYSTEM` reads here") in self.refusal(
                    capsys, "before-1.json", "before-2.json", verb=run)


@pytest.mark.parametrize(("options", "told"), [
    (["--shard", "0/2"], "want I/N with I from 1 to N"),
    (["--shard", "3/2"], "want I/N with I from 1 to N"),
    (["--shard", "x"], "want I/N with I from 1 to N"),
    (["--answers", "a.json"], "--answers is the file of a shard: give --shard I/N too"),
    (["--shard", "1/2", "--json", "-"], "give --json with --merge"),
    (["--shard", "1/2", "--answers", "none/a.json"], "cannot write 'none/a.json': there"),
    (["--shard", "1/2", "--study", "optimistic"], "--shard divides seeds, and a study is one run"),
    (["--shard", "1/2", "--requ", "5"], ""),
    (["--shar", "1/2"], "with --shard, write the names of options in full"),
])
def test_usage(options: list[str], told: str, capsys: Output) -> None:
    status = main(["cluster", "--seeds", "2", *options])
    assert status == (2 if told else 0)
    assert told in " ".join(capsys.readouterr().err.split())


def test_one_search_is_not_divided(capsys: Output) -> None:
    assert main(["check", "lock-server", "--shard", "1/2"]) == 2
    assert "--shard divides the systems of the hand-over" in capsys.readouterr().err


def test_shards_of_another_verb(capsys: Output) -> None:
    files, _ = shards(("cluster", "--seeds", "1", "--requests", "5"), 1)
    assert main(["prove", "--merge", *files]) == 2
    assert ("1.json has answers of cluster: use `python -m lab cluster --merge`"
            in capsys.readouterr().err)
