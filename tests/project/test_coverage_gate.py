"""The bounds of `make coverage`: each folder is held by itself."""

import json
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.project.coverage_gate import BOUNDS, main, percentages, problems


def report(**taken: int) -> dict[str, object]:
    """A report in which a file of each folder has 1,000 branches, so many of them taken."""
    return {"files": {
        f"{folder}/a.py": {
            "summary": {
                "num_branches": 1_000, "covered_branches": taken.get(Path(folder).name, 999),
            }
        }
        for folder in BOUNDS
    }}  # fmt: skip


def test_each_folder_is_held_by_itself() -> None:
    found = percentages(report(runtime=500))
    assert found == {**dict.fromkeys(BOUNDS, 99.9), "pdproto/runtime": 50.0}
    (problem,) = problems(found)
    bound = BOUNDS["pdproto/runtime"]
    assert problem == f"pdproto/runtime: 50.0 % of its branches are taken, want {bound:g} %"


def test_files_of_a_folder_count_together_and_others_do_not() -> None:
    files = {
        "pdproto/node/a.py": {"summary": {"num_branches": 3, "covered_branches": 3}},
        "pdproto/node/deep/b.py": {"summary": {"num_branches": 1, "covered_branches": 0}},
        "pdproto/nodes/c.py": {"summary": {"num_branches": 9, "covered_branches": 0}},
    }
    assert percentages({"files": files}) == {"pdproto/node": 75.0}


def test_a_folder_that_is_not_measured_is_no_success() -> None:
    assert len(list(problems({}))) == len(BOUNDS)


@pytest.mark.parametrize("folder", BOUNDS)
def test_a_bound_is_of_a_folder_with_modules(folder: str) -> None:
    assert any((ROOT / folder).glob("*.py"))


def test_the_exit_status_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report()))
    assert main(str(path)) == 0
    path.write_text(json.dumps(report(node=1)))
    assert main(str(path)) == 1
    assert "pdproto/node: 0.1 %" in capsys.readouterr().err
