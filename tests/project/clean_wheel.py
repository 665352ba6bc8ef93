"""Try an installed pdproto where there is no compiler: `python -m tests.project.clean_wheel BIN`.

BIN is the folder of programs of a virtual environment, and all that the commands find.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]


def command(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pdproto in the folder, without any other program and without what was kept before."""
    return subprocess.run(
        [programs / "python", "-m", "pdproto", *arguments], cwd=folder,
        env={"PATH": str(programs), "HOME": str(folder)}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def try_out(programs: Path, folder: Path) -> None:
    """Check and prove the README's spec, and explore a system by the native engine."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    (folder / "page.py").write_text(found[1], encoding="utf-8")
    checked = command(programs, folder, "check", "page.py:SYSTEM", "--size", "Worker=2",
                      "--json", "-")
    assert (checked.returncode, checked.stderr) == (1, ""), checked.stderr
    assert json.loads(checked.stdout)["states"] == 12
    proved = command(programs, folder, "prove", "page.py:SYSTEM", "--quiet")
    assert (proved.returncode, proved.stderr) == (1, ""), proved.stderr
    assert "page: 2 of 5 obligations proved" in proved.stdout
    explored = command(programs, folder, "check", "lock-server", "--quiet")
    assert (explored.returncode, explored.stderr) == (0, ""), explored.stderr
    assert "1,001 states" in explored.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        began = monotonic()
        try_out(Path(sys.argv[1]).resolve(), Path(temporary))
        sys.stdout.write(f"checked, proved and explored in {monotonic() - began:.1f} s\n")
