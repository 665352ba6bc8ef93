"""Options that several verbs share: the system, sizes, faults, where results go."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from rich.console import Console

from pdproto.check.load import perhaps
from pdproto.cli.systems import BUILT_IN
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import DEFAULT, Configuration, System

STANDARD_OUTPUT: Final = "-"
SEVERAL: Final = ("--size", "--faults", "--property")  # options that take one value or more
DIGITS_MAX: Final = 18  # of a number on the command line: what any counter here can hold


# How argparse says it.
CHOICE: Final = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
QUOTED: Final = re.compile(r"'([^']*)'")
UNRECOGNIZED: Final = re.compile(r"unrecognized arguments: (?P<given>--[^ =]+)")


class UsageError(Exception):
    """An option does not fit the system it is given for."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is for those who ask for it."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}{self._perhaps(message)}; see `{self.prog} --help`")

    def _perhaps(self, message: str) -> str:
        """What was meant where a choice or an option is mistyped."""
        choice = CHOICE.search(message)
        if choice is not None:
            return perhaps(choice["given"], QUOTED.findall(choice["known"]))
        option = UNRECOGNIZED.match(message)
        if option is not None:
            return perhaps(option["given"], self._option_string_actions)
        return ""


class VerbParser(Parser):
    """A parser for the arguments of one verb, where SYSTEM may stand anywhere."""

    def parse_known_args(  # type: ignore[override]  # the stub has overloads for namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[Any, list[str]]:
        found, left = super().parse_known_args(system_first(args or ()), namespace)
        if left:
            # Here and not in the parser above, which does not know the options of the verb.
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def system_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with SYSTEM where no option can swallow it: `--size A=2 B=3 lock-server`.

    Among the values of such an option, though never the first, stands a SYSTEM if it is a built-in
    name or has a colon. Where SYSTEM leads the arguments there is nothing to look for: a property
    may be called like a system.
    """
    several, values = False, 0
    for place, argument in enumerate(arguments):
        if argument.startswith("-"):
            several, values = argument in SEVERAL, 0
        elif not several and place == 0:
            break
        elif several and values and (argument in BUILT_IN or ":" in argument):
            return [argument, *arguments[:place], *arguments[place + 1 :]]
        else:
            values += 1
    return list(arguments)


def whole_number(text: str) -> int:
    """A count of at least 1, with commas or underscores if one likes: "1,000,000"."""
    digits = text.replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX and int(digits)):
        raise argparse.ArgumentTypeError(f"want a whole number of at least 1, not {text[:40]!r}")
    return int(digits)


def add_system(parser: argparse.ArgumentParser, *, left_out: str | None = None) -> None:
    """The positional SYSTEM. left_out: what it stands for when it is left out, where it may be."""
    parser.add_argument(
        "system",
        metavar="SYSTEM",
        nargs=None if left_out is None else "?",
        help="a built-in name, module:attribute, or path/to/file.py:attribute"
        + (f" (default: {left_out})" if left_out else ""),
    )


def add_lemmas(parser: argparse.ArgumentParser) -> None:
    """--lemmas, for prove_subject.subject."""
    parser.add_argument(
        "--lemmas", metavar="MODULE",
        help="a module, or path/to/file.py, with LEMMAS (default: those that stand beside SYSTEM)",
    )  # fmt: skip


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """--configuration, --size and --faults."""
    add_element_counts(parser)
    parser.add_argument(
        "--faults",
        metavar="LAYER",
        action="append",
        nargs="+",
        default=[],
        help="the fault layers, instead of those of the configuration; `none` for none",
    )


def add_element_counts(
    parser: argparse.ArgumentParser, *, configuration: str | None = DEFAULT
) -> None:
    """--configuration and --size. configuration: the one that is taken if none is named."""
    told = "" if configuration is None else f" (default: {configuration})"
    parser.add_argument(
        "--configuration", metavar="NAME", default=configuration,
        help=f"sizes, faults and topology under a name of the system{told}",
    )  # fmt: skip
    parser.add_argument(
        "--size",
        metavar="SORT=N",
        action="append",
        nargs="+",
        default=[],
        help="how many elements a sort has; overrides the configuration",
    )


def configuration(system: System, arguments: argparse.Namespace) -> Configuration:
    """The configuration that the options ask for. Raises UsageError."""
    base = _named(system, arguments.configuration)
    sizes = dict(base.sizes) | _sizes(system, _flat(arguments.size))
    missing = [sort.__name__ for sort in system.sorts if sort not in sizes]
    if missing:
        raise UsageError(f"{system.name}: how large is {missing[0]}? Give --size {missing[0]}=2")
    return replace(base, sizes=sizes, faults=_faults(system, base, _flat(arguments.faults)))


def _flat(groups: Iterable[Iterable[str]]) -> list[str]:
    return [item for group in groups for item in group]


def _named(system: System, name: str) -> Configuration:
    if name in system.configurations:
        return system.configurations[name]
    if name == DEFAULT:
        return Configuration({})
    known = ", ".join(system.configurations) or "none"
    raise UsageError(
        f"{system.name} has no configuration {name!r}{perhaps(name, system.configurations)}; "
        f"it has: {known}"
    )


def _sizes(system: System, texts: Iterable[str]) -> dict[type[Sort], int]:
    sorts = {sort.__name__: sort for sort in system.sorts}
    sizes: dict[type[Sort], int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in sorts:
            raise UsageError(
                f"{system.name} has no sort {name!r}{perhaps(name, sorts)}; "
                f"it has: {', '.join(sorts)}"
            )
        try:
            size = whole_number(number)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--size {name}=N: {error}") from None
        if sizes.setdefault(sorts[name], size) != size:
            raise UsageError(f"--size {name} is given twice: {sizes[sorts[name]]} and {size}")
    return sizes


def _faults(system: System, base: Configuration, names: list[str]) -> tuple[str, ...]:
    if not names:
        return base.faults
    if names == ["none"]:
        return ()
    for name in names:
        if name == "none":
            raise UsageError("--faults none stands alone: it takes every layer away")
        if name not in system.faults:
            known = ", ".join(system.faults) or "none"
            raise UsageError(
                f"{system.name} has no fault layer {name!r}{perhaps(name, system.faults)}; "
                f"it has: {known}"
            )
    return tuple(dict.fromkeys(names))


def check_targets(targets: Iterable[str | None]) -> None:
    """Raise UsageError now for what could not be written after a long search."""
    given = [target for target in targets if target is not None]
    for target in given:
        if given.count(target) > 1:
            what = "standard output" if target == STANDARD_OUTPUT else target
            raise UsageError(f"two results cannot both go to {what}")
        if target != STANDARD_OUTPUT and not _is_device(target):
            _check_path(target, _resolved(target))


def _check_path(target: str, path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"cannot write {target!r}: it is a folder")
    ancestor = next(parent for parent in path.parents if parent.exists())
    if not ancestor.is_dir():
        raise UsageError(f"cannot write {target!r}: {ancestor} is no folder")
    if ancestor != path.parent:
        raise UsageError(f"cannot write {target!r}: there is no folder {path.parent}")
    if not os.access(ancestor, os.W_OK) and not path.exists():
        raise UsageError(f"cannot write {target!r}: no permission to write in {ancestor}")


def write(text: str, target: str) -> None:
    """Write a result to a file, whole or not at all, or to standard output for `-`.

    Raises UsageError if the result cannot be written, as in a folder that does not exist.
    """
    check_targets([target])
    if target == STANDARD_OUTPUT:
        with standard_output() as stream:
            stream.write(text if text.endswith("\n") else text + "\n")
        return
    try:
        if _is_device(target):
            Path(target).write_text(text, encoding="utf-8")
        else:
            _replace(_resolved(target), text)
    except OSError as error:
        raise UsageError(f"cannot write {target!r}: {error.strerror}") from error


def _is_device(target: str) -> bool:
    """Whether the target is a device or a pipe, which must stay what it is."""
    path = Path(target)
    return path.exists() and not path.is_file() and not path.is_dir()


def _resolved(target: str) -> Path:
    """Where the target really lies: a link stays a link."""
    return Path(os.path.realpath(target))


def _replace(path: Path, text: str) -> None:
    # Two runs that write the same file must not meet in its unfinished form.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def discard_output() -> None:
    """Let what is still written to standard output go nowhere, also when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def console() -> Iterator[Console]:
    """A console for a result: what is drawn on it goes to standard output in the end.

    Left to itself it would end the program where a reader has left.
    """
    drawn = Console(file=sys.stdout)
    with drawn.capture() as captured:
        yield drawn
    with standard_output() as stream:
        stream.write(captured.get())


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Standard output for a result. A reader that has seen enough (`| head`) changes no answer."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"standard output takes {error.encoding} only: name a file, which is UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write to standard output: {error.strerror}") from error
