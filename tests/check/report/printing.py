"""How tests print to a console of a given width and encoding, and keep what they expect."""

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

GOLDEN = Path(__file__).parent / "golden"
REPLACE = "rm the file and run the test twice to accept the new text"


def printed(show: Callable[[Console], None], *, width: int, encoding: str = "utf-8") -> str:
    """Return what `show` prints, decoded; a character the encoding lacks raises."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    show(Console(width=width, file=stream, color_system=None, legacy_windows=False))
    stream.flush()
    stream.seek(0)
    return stream.read()


def assert_golden(name: str, text: str) -> None:
    """Compare `text` with the golden file. A missing file is written, and fails this once."""
    path = GOLDEN / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        raise AssertionError(f"{path} was missing and is written now: read it, then run again")
    with path.open(encoding="utf-8", newline="") as golden:
        assert text == golden.read(), f"{path} differs: {REPLACE}"
