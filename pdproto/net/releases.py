"""Releases of the engines that host this code: which start, by the interface that we rely on.

Rule: a release with which the tests ran starts. Another one starts, with a warning, if its
      interface is the one of the newest of these, name by name, and is refused with the differences
      if not. A call that an engine adds to a class from which ours derives is answered by the
      engine until ours answers it, so a new name is a difference as much as a missing one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import EnumMeta
from inspect import Signature, getattr_static, isfunction, signature
from logging import Logger
from pathlib import Path
from typing import Any, Final

SHOWN: Final = 6  # differences in a message

Interface = frozenset[str]  # names, and of calls their parameters


@dataclass(frozen=True)
class Releases:
    """An engine, its tested releases from the oldest, and the file with the newest's interface."""

    engine: str
    releases: Sequence[str]
    record: Path

    def recorded(self) -> Interface:
        """The interface of the newest release, line by line."""
        return frozenset(self.record.read_text().splitlines())

    def check(self, version: str, found: Callable[[], Interface], log: Logger) -> None:
        """Raise ValueError by the rule. found: gives the interface of the installed release."""
        number = re.match(r"\d+(\.\d+)*(?!\w)(?!\.\w)", version)
        if number is not None and number[0] in self.releases:
            return
        *before, newest = self.releases
        tested = " and ".join(filter(None, (", ".join(before), newest)))
        then, now = self.recorded(), found()
        changes = [*(f"{name} is gone" for name in sorted(then - now)),
                   *(f"{name} is new" for name in sorted(now - then))]
        if not changes:
            log.warning("%s %s is installed, and pdproto is tested with %s: it starts, because the "
                        "interface that it uses is that of %s", self.engine, version, tested,
                        newest)
            return
        more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        raise ValueError(
            f"{self.engine} {version} is installed, and pdproto is tested with {tested}. Of the "
            f"interface of {newest}, {', '.join(changes[:SHOWN])}{more}: install "
            f"{' or '.join(self.releases)}, or another pdproto")


def of_calls(*calls: Any) -> Interface:
    """Functions that we call, or that ours are called in place of."""
    return frozenset(f"{call.__qualname__}{_parameters(call)}" for call in calls)


def of_bases(*classes: Any) -> Interface:
    """Every public member of classes from which ours derive."""
    return frozenset(f"{owner.__name__}.{name}{_told(member)}" for owner in classes
                     for name, member in vars(owner).items() if not name.startswith("_"))


def of_values(*classes: Any) -> Interface:
    """The fields of data classes and named tuples, and the members of enumerations."""
    return frozenset(f"{owner.__name__}.{name}" for owner in classes for name in _names(owner))


def of_attributes(owner: Any, names: Iterable[str]) -> Interface:
    """Those of the names that objects of the class have by its body, fields or first lines. A name
    that is gone is left out, so that it is told beside others.
    """
    first_lines = getattr(owner.__init__, "__code__", None)
    made = (*getattr(first_lines, "co_names", ()), *getattr(owner, "__dataclass_fields__", ()))
    return frozenset(f"{owner.__name__}.{name}{_told(getattr_static(owner, name, None))}"
                     for name in names if name in made or hasattr(owner, name))


def _names(owner: Any) -> Iterable[str]:
    if isinstance(owner, EnumMeta):
        return owner.__members__
    return [field.name for field in fields(owner)] if is_dataclass(owner) else owner._fields


def _told(member: Any) -> str:
    if isinstance(member, (classmethod, staticmethod)):
        return _parameters(member.__func__)
    return _parameters(member) if isfunction(member) else ""


def _parameters(call: Any) -> str:
    """Without types, which releases word otherwise, and without the values of defaults."""
    kept = [one.replace(annotation=one.empty,
                        default=one.empty if one.default is one.empty else None)
            for one in signature(call).parameters.values()]
    return str(Signature(kept))
