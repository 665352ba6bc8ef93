"""Files of an earlier run: none stays beside the answer of this one, and none that is read goes."""

from pathlib import Path

import pytest

from pdproto.check.prove.certificates import certificates
from pdproto.cli import handoff
from pdproto.cli.main import main
from pdproto.cli.options import UsageError
from pdproto.cli.systems import COUNTS, subject

Output = pytest.CaptureFixture[str]
BUSY = "pdproto.spec.examples.lock_server:SYSTEM"


def test_the_counts_that_record_keeps_are_no_place_for_a_report(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red: the counts were removed, and then the two files were refused."""
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "counts.json"
    kept.write_bytes(COUNTS.read_bytes())
    (tmp_path / "link.json").symlink_to(kept)
    for target in ("counts.json", "./counts.json", str(kept), "link.json"):
        for option in ("--json", "--html", "--sarif"):
            assert main(["check", "agreement", option, target, "--record", str(kept)]) == 2
            assert f"{target} is read: write the result to another file" in capsys.readouterr().err
    assert kept.read_bytes() == COUNTS.read_bytes()


def test_two_results_in_one_file_are_refused_however_it_is_named(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red: the second report replaced the first."""
    monkeypatch.chdir(tmp_path)
    assert main(["check", "lock-server", "--json", "one", "--html", f"{tmp_path}/one"]) == 2
    assert "two results cannot both go to" in capsys.readouterr().err


def test_an_export_without_an_answer_leaves_none_of_an_earlier_one(tmp_path: Path) -> None:
    """Seen red: each stayed, of tables that had changed since."""
    graph, module, page = (tmp_path / name for name in ("a.dot", "Lock.tla", "a.md"))
    for target in (graph, module, page):
        target.write_text("of an earlier run")
    assert main(["export", BUSY, "--dot", "--max-states", "2", "--output", str(graph)]) == 2
    assert main(["export", BUSY, "--tla", "--size", "Nobody=2", "--output", str(module)]) == 2
    assert main(["export", "nowhere.py:SYSTEM", "--markdown", "--output", str(page)]) == 2
    assert [*tmp_path.iterdir()] == []


def test_a_module_has_no_configuration_of_an_earlier_system(tmp_path: Path) -> None:
    """Seen red: TLC was given the properties of other tables."""
    for name in ("Lock.cfg", "Lock_EveryTimerFires.cfg", "Lock_NoTimers.cfg", "Other.cfg"):
        (tmp_path / name).write_text("of an earlier run")
    assert main(["export", "lock-server", "--tla", "--output", f"{tmp_path}/Lock.tla"]) == 0
    stale = [one.name for one in tmp_path.iterdir() if one.read_text() == "of an earlier run"]
    assert stale == ["Other.cfg"]


def test_certificates_are_of_this_proof_and_each_has_a_name(tmp_path: Path) -> None:
    """Seen red: those of an earlier proof stayed, and would be `unsat`; and 21 obligations of the
    transfer had the names of others, so theirs were written over.
    """
    one = subject("lock-server")
    first = one.obligations()[0]
    written = [*certificates(one.system, [first, first])]
    assert len({each.name for each in written}) == 4
    for each in written:
        (tmp_path / each.name).write_text(each.text)
    (tmp_path / "mine.smt2").write_text("(check-sat)")
    assert main(["prove", "nowhere.py:SYSTEM", "--export", str(tmp_path)]) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["mine.smt2"]


def test_files_far_below_a_folder_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drill and a proof write in the folder, and in those of systems. Seen red: `--trace` and
    `--export` of a folder removed all traces and certificates below it, whoever had written them.
    """
    trace = '{"n":1,"node":"decode-7","machine":"sink","end":1}\n'
    one = subject("lock-server")
    certificate = next(iter(certificates(one.system, one.obligations())))
    proof = Path(certificate.name).name
    of_earlier = [tmp_path / name for name in ("a.jsonl", "agreement/a.jsonl", proof)]
    of_others = [tmp_path / "mine" / name for name in ("a.jsonl", "agreement/a.jsonl", proof)]
    for path in (*of_earlier, *of_others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace if path.suffix == ".jsonl" else certificate.text)

    def no_cluster(*_: object, **__: object) -> None:
        raise UsageError("no drill is needed here")

    monkeypatch.setattr(handoff, "HandoffCluster", no_cluster)
    assert main(["handoff", "--requests", "1", "--trace", str(tmp_path)]) == 2
    assert main(["prove", "nowhere.py:SYSTEM", "--export", str(tmp_path)]) == 2
    assert [path.exists() for path in of_earlier] == [False] * 3
    assert [path.exists() for path in of_others] == [True] * 3
