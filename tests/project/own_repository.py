"""A user's repository: a spec that holds, one that does not, and one with a mistake. And ours."""

import subprocess
from pathlib import Path

from tests.docs.documents import ROOT

LEASE = ROOT / "examples" / "lease.py"


def repository(folder: Path) -> Path:
    """Write lease.py, broken.py (without the guard of a row) and mistaken.py (a guard in quotes).
    """
    text = LEASE.read_text(encoding="utf-8")
    assert "when=free, " in text
    folder.mkdir()
    (folder / "lease.py").write_text(text, encoding="utf-8")
    broken = text.replace("when=free, ", "").replace('"lease"', '"broken"')
    (folder / "broken.py").write_text(broken, encoding="utf-8")
    (folder / "mistaken.py").write_text(text.replace("when=free", 'when="free"'), encoding="utf-8")
    return folder


def copied(folder: Path) -> Path:
    """A copy of this project as it is here, also where it is not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    for name in listed:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    return folder


def committed(folder: Path) -> str:
    """Make the folder a git repository with all of its files; returns the commit."""
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "all")):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True, capture_output=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True,
                          capture_output=True, text=True).stdout.strip()
