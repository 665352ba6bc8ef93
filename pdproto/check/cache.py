"""Results of earlier checks of this user: an unchanged question is not explored again.

A result is kept (store.py) under the identity of its question (identity.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, TypeAlias

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import FIRST_VIOLATION, INTERRUPTED
from pdproto.check.identity import name_of
from pdproto.check.result import CheckResult
from pdproto.check.store import BYTES_MAX, Store
from pdproto.spec.language.system import Configuration, System

# Settings that change no result that is kept; of the limits, the number of states may.
CHANGE_NOTHING: Final = {"monitor", "workers", "limits"}

# A function of a module. It adds findings to a result that exploring cannot make.
Completion: TypeAlias = Callable[
    [System, Configuration, CheckSettings, CheckResult], CheckResult]


def keep_result(
    _: System, __: Configuration, ___: CheckSettings, result: CheckResult
) -> CheckResult:
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
        known = self.recall(system, configuration, settings, complete)
        if known is not None:
            return known
        result = complete(
            system, configuration, settings, check(system, configuration, settings))
        self.keep(system, configuration, settings, complete, result)
        return result

    def keep(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion, result: CheckResult,
    ) -> None:
        """Keep the result, unless the same question may have another one the next time."""
        if _is_final(result, settings):
            self._store.keep(self._name(system, configuration, settings, complete), result)
            self._store.make_room()

    def recall(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = keep_result,
    ) -> CheckResult | None:
        """The result, if the folder has it; else None, without exploring."""
        name = self._name(system, configuration, settings, complete)
        known = self._store.read(name, CheckResult)
        return None if known is None else replace(known, recalled=True)

    @property
    def _store(self) -> Store:
        return Store(self.folder, self.bytes_max)

    def _name(
        self, system: System, configuration: Configuration, settings: CheckSettings,
        complete: Completion = keep_result,
    ) -> str | None:
        """The name of the result; None for a question without an identity."""
        if self.folder is None:
            return None
        asked = {one.name: getattr(settings, one.name) for one in fields(settings)
                 if one.name not in CHANGE_NOTHING}
        return name_of(system, configuration, asked, settings.limits.states_max,
                       complete.__module__, complete.__qualname__)


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
