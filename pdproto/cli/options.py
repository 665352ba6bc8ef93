"""Options that several verbs share: sizes, faults, where results go."""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import Configuration, System

STANDARD_OUTPUT = "-"


class UsageError(Exception):
    """An option does not fit the system it is given for."""


def add_system(parser: argparse.ArgumentParser) -> None:
    """The positional SYSTEM."""
    parser.add_argument(
        "system",
        metavar="SYSTEM",
        help="a built-in name, module:attribute, or path/to/file.py:attribute",
    )


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """--configuration, --size and --faults."""
    parser.add_argument(
        "--configuration", metavar="NAME", default="default", help="named sizes (default: default)"
    )
    parser.add_argument(
        "--size",
        metavar="SORT=N",
        action="append",
        nargs="+",
        default=[],
        help="how many elements a sort has; overrides the configuration",
    )
    parser.add_argument(
        "--faults",
        metavar="LAYER",
        action="append",
        nargs="+",
        default=[],
        help="fault layers to add; `none` takes those of the configuration away",
    )


def configuration(system: System, arguments: argparse.Namespace) -> Configuration:
    """The configuration that the options ask for. Raises UsageError."""
    base = _named(system, arguments.configuration)
    sizes = dict(base.sizes) | dict(_sizes(system, _flat(arguments.size)))
    missing = [sort.__name__ for sort in system.sorts if sort not in sizes]
    if missing:
        raise UsageError(f"{system.name}: how large is {missing[0]}? Give --size {missing[0]}=2")
    return replace(base, sizes=sizes, faults=_faults(system, base, _flat(arguments.faults)))


def _flat(groups: Iterable[Iterable[str]]) -> list[str]:
    return [item for group in groups for item in group]


def _named(system: System, name: str) -> Configuration:
    if name in system.configurations:
        return system.configurations[name]
    if name == "default":
        return Configuration({})
    known = ", ".join(system.configurations) or "none"
    raise UsageError(f"{system.name} has no configuration {name!r}; it has: {known}")


def _sizes(system: System, texts: Iterable[str]) -> Iterable[tuple[type[Sort], int]]:
    sorts = {sort.__name__: sort for sort in system.sorts}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in sorts:
            raise UsageError(f"{system.name} has no sort {name!r}; it has: {', '.join(sorts)}")
        if not number.isdecimal() or int(number) < 1:
            raise UsageError(f"--size {text}: want {name}=N with a whole number N of at least 1")
        yield sorts[name], int(number)


def _faults(system: System, base: Configuration, names: list[str]) -> tuple[str, ...]:
    if not names:
        return base.faults
    if names == ["none"]:
        return ()
    for name in names:
        if name not in system.faults:
            known = ", ".join(system.faults) or "none"
            raise UsageError(f"{system.name} has no fault layer {name!r}; it has: {known}")
    return tuple(dict.fromkeys(names))


def write(text: str, target: str) -> None:
    """Write a result to a file, whole or not at all, or to standard output for `-`."""
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    path = Path(target)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
