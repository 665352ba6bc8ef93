"""Values that are kept between runs: each is a JSON file in a folder of a bounded size.

A file is never visible in part, so a crash leaves no broken file, and processes may share a folder.
A file has a digest of its name and its value. One that cannot be read, is changed, or is in the
place of another one counts as missing.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

import msgspec

BYTES_MAX: Final = 256 << 20
ENDING: Final = ".json"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The content of a file."""

    digest: str
    value: msgspec.Raw


def _digest(name: str, value: bytes | msgspec.Raw) -> str:
    return blake2b(name.encode() + b"\n" + bytes(value), digest_size=16).hexdigest()


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else is in this block for the same folder meanwhile: what is read there is not changed
    before it is written. A folder that cannot be locked is shared.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class Store:
    """The values in a folder, with at most `bytes_max` bytes. folder: None keeps nothing.

    A value has a name. None is the name of a value that cannot be kept.
    """

    folder: Path | None
    bytes_max: int = BYTES_MAX

    def read(self, name: str | None, kind: type[Value]) -> Value | None:
        """The value of this name; None if there is none, or it cannot be read."""
        if self.folder is None or name is None:
            return None
        file = self.folder / (name + ENDING)
        try:
            kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
            if kept.digest != _digest(name, kept.value):
                return None
            known = msgspec.json.decode(kept.value, type=kind)
            file.touch()
        except (OSError, msgspec.DecodeError):
            return None
        return known

    def keep(self, name: str | None, value: object) -> None:
        """Write the value. An error of the disk is ignored: the value is then computed again."""
        if self.folder is None or name is None:
            return
        raw = msgspec.json.encode(value)
        kept = msgspec.json.encode(_Kept(_digest(name, raw), msgspec.Raw(raw)))
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as written:
                    written.write(kept)
                Path(path).replace(self.folder / (name + ENDING))
            except BaseException:
                Path(path).unlink(missing_ok=True)
                raise

    def make_room(self) -> None:
        """Remove the values that were used least recently, until the rest fits."""
        found = sorted(self._files(), key=lambda one: one[1].st_mtime)
        excess = sum(about.st_size for _, about in found) - self.bytes_max
        for path, about in found:
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= about.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every file with its size and times, without those that another process removes now."""
        for path in () if self.folder is None else self.folder.glob(f"*{ENDING}"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()
