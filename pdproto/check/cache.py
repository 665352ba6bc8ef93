"""Results of earlier checks of this user: an unchanged question is not explored again.

A result is a file whose name is the identity of its question (identity.py). A file is never visible
in part, so a crash leaves no broken file, and processes may share a folder. A file that cannot be
read counts as missing. The size of the folder is bounded: the least recently used results are
removed first.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import FIRST_VIOLATION, INTERRUPTED
from pdproto.check.identity import identity
from pdproto.check.result import CheckResult
from pdproto.spec.language.system import Configuration, System

BYTES_MAX: Final = 256 << 20
ENDING: Final = ".json"

# A function of a module. It adds findings to a result that exploring cannot make.
Completion: TypeAlias = Callable[[System, CheckResult], CheckResult]


def keep_result(_: System, result: CheckResult) -> CheckResult:
    """The result of exploring without any addition."""
    return result


@dataclass(frozen=True, slots=True)
class Cache:
    """The results in a folder, with at most `bytes_max` bytes. folder: None keeps nothing."""

    folder: Path | None
    bytes_max: int = BYTES_MAX

    def check(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = keep_result,
    ) -> CheckResult:
        """The completed result of `checking.check`, from the folder if it has it.

        Raises the errors of `checking.check`.
        """
        file = self._file(system, configuration, settings, complete)
        known = _read(file)
        if known is not None:
            return known
        result = complete(system, check(system, configuration, settings))
        if file is not None and _is_final(result, settings):
            self._keep(file, result)
        return result

    def recall(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = keep_result,
    ) -> CheckResult | None:
        """The result, if the folder has it; else None, without exploring."""
        return _read(self._file(system, configuration, settings, complete))

    def _file(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = keep_result,
    ) -> Path | None:
        """The file of the result; None for a question without an identity."""
        if self.folder is None:
            return None
        # The monitor, the threads and the memory do not change a result that is kept.
        asked = (settings.properties, settings.keep_going, settings.fairness,
                 settings.limits.states_max, complete.__module__, complete.__qualname__)
        try:
            name = identity(system, configuration, *asked)
        except Exception:
            return None  # the check reports the error, for example in the user's own `given=`
        return self.folder / (name + ENDING)

    def _keep(self, file: Path, result: CheckResult) -> None:
        """Write the result. An error of the disk is ignored: the result is then computed again."""
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=file.parent)
            try:
                with os.fdopen(handle, "wb") as written:
                    written.write(msgspec.json.encode(result))
                Path(name).replace(file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._make_room()

    def _make_room(self) -> None:
        """Remove the least recently used results until the rest fits."""
        found = sorted(self._files(), key=lambda one: one[1].st_mtime)
        excess = sum(about.st_size for _, about in found) - self.bytes_max
        for path, about in found:
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= about.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every result with its size and times, without those that another process removes now."""
        for path in () if self.folder is None else self.folder.glob(f"*{ENDING}"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


NO_CACHE: Final = Cache(None)


def _is_final(result: CheckResult, settings: CheckSettings) -> bool:
    """Whether the same question always has the same result.

    It does not if memory or an interrupt has ended the search, or if several threads ran into a
    limit of states.
    """
    if result.stopped in ("", FIRST_VIOLATION):
        return True
    most = settings.limits.states_max
    return (settings.workers == 1 and most is not None and result.states >= most
            and result.stopped != INTERRUPTED)


def _read(file: Path | None) -> CheckResult | None:
    """The result in the file, marked as recalled; None if the file cannot be read."""
    if file is None:
        return None
    try:
        known = msgspec.json.decode(file.read_bytes(), type=CheckResult)
        file.touch()
    except (OSError, msgspec.DecodeError):
        return None
    return replace(known, recalled=True)
