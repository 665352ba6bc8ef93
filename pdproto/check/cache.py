"""Results of checks that this user has made before: what has not changed is not explored again.

A result is a file whose name is the identity of its question (identity.py). A file appears whole
or not at all, so that a crash leaves none that is half written, and processes may share a folder.
A file that cannot be read counts as missing. The folder is bounded: the results that nobody has
asked for longest go first.
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

# A function of a module, which adds to a result what exploring does not find.
Completion: TypeAlias = Callable[[System, CheckResult], CheckResult]


def nothing_more(_: System, result: CheckResult) -> CheckResult:
    """The result of exploring, as it is."""
    return result


@dataclass(frozen=True, slots=True)
class Cache:
    """The results in a folder, in bytes_max bytes at most. folder None: nothing is kept."""

    folder: Path | None
    bytes_max: int = BYTES_MAX

    def check(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = nothing_more,
    ) -> CheckResult:
        """As `checking.check`, completed; from the folder if it is there. Raises as `check` does.
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
        complete: Completion = nothing_more,
    ) -> CheckResult | None:
        """The result, if the folder has it. Nothing is explored."""
        return _read(self._file(system, configuration, settings, complete))

    def _file(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = nothing_more,
    ) -> Path | None:
        """Where the result is kept; None for a question that has no identity."""
        if self.folder is None:
            return None
        # The monitor, the threads and the memory change no result that is kept.
        asked = (settings.properties, settings.keep_going, settings.fairness,
                 settings.limits.states_max, complete.__module__, complete.__qualname__)
        try:
            name = identity(system, configuration, *asked)
        except Exception:
            return None  # the check says what is wrong, say with the user's own `given=`
        return self.folder / (name + ENDING)

    def _keep(self, file: Path, result: CheckResult) -> None:
        """Write the result, if the disk takes it: one that is not kept is computed again."""
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
        """Remove the results that nobody has asked for longest, until the rest fits."""
        found = sorted(self._files(), key=lambda one: one[1].st_mtime)
        excess = sum(about.st_size for _, about in found) - self.bytes_max
        for path, about in found:
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= about.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every result with its size and times; none that another process removes meanwhile."""
        for path in () if self.folder is None else self.folder.glob(f"*{ENDING}"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


NO_CACHE: Final = Cache(None)


def _is_final(result: CheckResult, settings: CheckSettings) -> bool:
    """Whether the same question has the same result again.

    It has not where memory or an interrupt has ended the search, nor where threads have raced to a
    limit of states.
    """
    if result.stopped in ("", FIRST_VIOLATION):
        return True
    most = settings.limits.states_max
    return (settings.workers == 1 and most is not None and result.states >= most
            and result.stopped != INTERRUPTED)


def _read(file: Path | None) -> CheckResult | None:
    """The result in the file, marked as recalled; None if there is none that can be read."""
    if file is None:
        return None
    try:
        known = msgspec.json.decode(file.read_bytes(), type=CheckResult)
        file.touch()
    except (OSError, msgspec.DecodeError):
        return None
    return replace(known, recalled=True)
