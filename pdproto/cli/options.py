"""Options that several verbs share: the system, sizes, faults, where results go."""

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from rich.console import Console

import pdproto
from pdproto.check.questions import names
from pdproto.check.report.pen import WITHOUT_TERMINAL
from pdproto.cli.systems import BUILT_IN
from pdproto.spec.language.kinds import suggestion
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import DEFAULT, Configuration, System

STANDARD_OUTPUT: Final = "-"
OPEN_FILES: Final = ("/dev/std", "/dev/fd/", "/proc/")
REPORTS: Final = ("json", "junit", "sarif", "html", "mermaid")
WRITTEN: Final = (*REPORTS, "output", "answers", "markdown", "plot")  # options with a file to write
# Options with files to read; --record of `check` keeps the other counts of its file.
READ: Final = ("system", "systems", "lemmas", "files", "merge", "trace", "resume", "record")
# Options that take one value or more.
SEVERAL: Final = ("--size", "--faults", "--property", "--trace")
DIGITS_MAX: Final = 18  # of a number on the command line: what any counter here can hold

# Messages of argparse.
CHOICE: Final = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
QUOTED: Final = re.compile(r"'([^']*)'")
UNRECOGNIZED: Final = re.compile(r"unrecognized arguments: (?P<given>--[^ =]+)")


class UsageError(Exception):
    """An option or argument is wrong. The message says how to correct it."""


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, without the usage, which `--help` prints."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, with a suggestion for a mistyped word."""
        raise UsageError(f"{message}{self._perhaps(message)}; see `{self.prog} --help`")

    def _perhaps(self, message: str) -> str:
        """A suggestion for a mistyped choice or option; "" if there is none."""
        choice = CHOICE.search(message)
        if choice is not None:
            return suggestion(choice["given"], QUOTED.findall(choice["known"]))
        option = UNRECOGNIZED.match(message)
        if option is not None:
            return suggestion(option["given"], self._option_string_actions)
        return ""


class VerbParser(Parser):
    """A parser for the arguments of one verb, where SYSTEM may stand anywhere."""

    def parse_known_args(  # type: ignore[override]  # the stub has overloads for namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments; an unknown one is an error."""
        found, left = super().parse_known_args(system_first(args or ()), namespace)
        if left:
            # The parser above cannot report them: it does not know the options of the verb.
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def system_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with SYSTEM moved to the front, as in `--size A=2 B=3 lock-server`.

    There argparse would take it as a value of the option. Such a value is SYSTEM if it is a
    built-in name or has a colon, and is not the option's first value; none is moved where the
    first argument is SYSTEM: a property may have the name of a system.
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
    """A count of at least 1; the text may have commas or underscores: "1,000,000"."""
    digits = text.replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX and int(digits)):
        raise argparse.ArgumentTypeError(f"want a whole number of at least 1, not {text[:40]!r}")
    return int(digits)


def add_system(parser: argparse.ArgumentParser, *, left_out: str | None = None) -> None:
    """Add the positional SYSTEM. left_out: the default, if SYSTEM may be left out."""
    parser.add_argument(
        "system",
        metavar="SYSTEM",
        nargs=None if left_out is None else "?",
        help="a built-in name, module:attribute, or path/to/file.py:attribute"
        + (f" (default: {left_out})" if left_out else ""),
    )


def add_lemmas(parser: argparse.ArgumentParser) -> None:
    """Add --lemmas."""
    parser.add_argument(
        "--lemmas", metavar="MODULE",
        help="a module, or path/to/file.py, with LEMMAS (default: the lemmas of SYSTEM)",
    )  # fmt: skip


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add --configuration, --size and --faults."""
    add_element_counts(parser)
    parser.add_argument(
        "--faults",
        metavar="LAYER",
        action="append",
        nargs="+",
        default=[],
        help="the fault layers, instead of those of the configuration; `none` for no faults",
    )


def add_element_counts(
    parser: argparse.ArgumentParser, *, configuration: str | None = DEFAULT
) -> None:
    """Add --configuration and --size. configuration: the default name."""
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
        help="the number of elements of a sort; overrides the configuration",
    )


def configuration(system: System, arguments: argparse.Namespace) -> Configuration:
    """The configuration that the options ask for. Raises UsageError."""
    base = _named(system, arguments.configuration)
    chosen = replace(base, sizes=dict(base.sizes) | _sizes(system, _flat(arguments.size)))
    missing = [sort.__name__ for sort in system.sorts
               if sort not in chosen.sizes and sort.of is None]
    if missing:
        named = next((f" or --configuration {name}" for name in system.configurations), "")
        raise UsageError(f"{system.name}: the sort {missing[0]} has no size: give one, such as "
                         f"--size {missing[0]}=2{named}")
    layers = fault_layers(system, arguments.faults)
    return replace(chosen, faults=base.faults if layers is None else layers)


def _flat(groups: Iterable[Iterable[str]]) -> list[str]:
    return [item for group in groups for item in group]


def _named(system: System, name: str) -> Configuration:
    if name in system.configurations:
        return system.configurations[name]
    if name == DEFAULT:
        return Configuration(system.own_sizes)
    known = ", ".join(system.configurations) or "none"
    raise UsageError(
        f"{system.name} has no configuration {name!r}{suggestion(name, system.configurations)}; "
        f"it has: {known}"
    )


def _sizes(system: System, texts: Iterable[str]) -> dict[type[Sort], int]:
    sorts = {sort.__name__: sort for sort in system.sorts}
    sizes: dict[type[Sort], int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise UsageError(f"--size {text}: want SORT=N, as in --size {next(iter(sorts), 'S')}=2")
        if name not in sorts:
            raise UsageError(f"{system.name} has no sort {name!r}{suggestion(name, sorts)}; "
                             f"it has: {', '.join(sorts)}")
        of = sorts[name].of
        if of is not None:
            raise UsageError(f"--size {name}=N: the elements of {name} are sets of {of.__name__}: "
                             f"give a size to {of.__name__}")
        if sorts[name].own_size() is not None:
            raise UsageError(f"--size {name}=N: {name} is a sort of numbers: its range is in the "
                             "system")
        try:
            size = whole_number(number)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--size {name}=N: {error}") from None
        if sizes.setdefault(sorts[name], size) != size:
            raise UsageError(f"--size {name} is given twice: {sizes[sorts[name]]} and {size}")
    return sizes


def fault_layers(system: System, groups: Iterable[Iterable[str]]) -> tuple[str, ...] | None:
    """The layers that --faults names, none for `none`; None without the option. Raises UsageError.
    """
    names = _flat(groups)
    if not names:
        return None
    if names == ["none"]:
        return ()
    for name in names:
        if name == "none":
            raise UsageError("--faults none removes every layer: give no other layer beside it")
        if name not in system.faults:
            known = ", ".join(system.faults) or "none"
            raise UsageError(
                f"{system.name} has no fault layer {name!r}{suggestion(name, system.faults)}; "
                f"it has: {known}"
            )
    return tuple(dict.fromkeys(names))


def chosen_properties(system: System, groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The properties that --property names, each with the claim that it reads nothing past an end.

    Raises UsageError for one that the system lacks.
    """
    wanted, known = tuple(_flat(groups)), names(system)
    for name in wanted:
        if name not in known:
            raise UsageError(f"{system.name} has no property {name!r}{suggestion(name, known)}; "
                             f"it has: {', '.join(known)}")
    return system.meant(wanted)


def without(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """A command line without these options and their values."""
    return [argument for place, argument in enumerate(arguments)
            if argument not in options and (not place or arguments[place - 1] not in options)]


def of_laboratory(module: str, option: str) -> Any:
    """A module of the laboratory, which lies beside the package in a clone. Raises UsageError for
    an option that needs it where there is none.
    """
    clone = Path(pdproto.__file__).parents[1]
    if not (clone / "lab").is_dir():
        raise UsageError(f"{option} needs the laboratory, and an installed package has none: run "
                         f"it in a clone of the repository")
    sys.path.append(str(clone))
    return import_module(module)


def check_targets(targets: Iterable[str | None]) -> None:
    """Raise UsageError for a file that cannot be written, before a long search begins."""
    given = [one for one in targets if one is not None]
    places = [target if target == STANDARD_OUTPUT else str(_resolved(target)) for target in given]
    for place, target in zip(places, given, strict=True):
        if places.count(place) > 1:
            what = "standard output" if target == STANDARD_OUTPUT else target
            raise UsageError(f"two results cannot both go to {what}")
        if target != STANDARD_OUTPUT and not _is_device(target):
            _check_path(target, _resolved(target))


def remove_reports(arguments: argparse.Namespace) -> None:
    """Remove the reports of an earlier run: one that ends without an answer leaves none. Raises
    UsageError for one that cannot be removed, and before that for a file that is read.
    """
    given = (getattr(arguments, name, None) for name in READ)
    paths = [str(path) for one in given if one
             for path in ([one] if isinstance(one, str | Path) else one)]
    read = {_resolved(path) for path in (
        *paths, *(path.rpartition(":")[0] for path in paths if ":" in path))}
    named = (getattr(arguments, kind, None) for kind in WRITTEN)
    targets = [str(target) for target in named if target not in (None, STANDARD_OUTPUT)]
    for target in targets:
        if _resolved(target) in read:
            raise UsageError(f"{target} is read: write the result to another file")
    for target in targets:
        # The shell has emptied an open file, and knows no other file of its name.
        if not os.path.abspath(target).startswith(OPEN_FILES):
            remove(Path(target))


def remove(path: Path) -> None:
    """Remove a file of an earlier run, if there is one. Raises UsageError if it must stay."""
    try:
        if path.is_file():
            _resolved(str(path)).unlink()
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from error


def check_folder(target: str | Path | None) -> None:
    """Raise UsageError for a folder in which no file can be written. It need not exist."""
    if target is None:
        return
    ancestor = next(each for each in (Path(target), *Path(target).absolute().parents)
                    if each.exists())
    if not ancestor.is_dir():
        raise UsageError(f"cannot write in {str(target)!r}: {ancestor} is a file, and no folder")
    if not os.access(ancestor, os.W_OK):
        raise UsageError(f"cannot write in {str(target)!r}: no permission to write in {ancestor}")


def _check_path(target: str, path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"cannot write {target!r}: it is a folder")
    ancestor = next(parent for parent in path.parents if parent.exists())
    if not ancestor.is_dir():
        raise UsageError(f"cannot write {target!r}: {ancestor} is not a folder")
    if ancestor != path.parent:
        raise UsageError(f"cannot write {target!r}: there is no folder {path.parent}")
    if not os.access(ancestor, os.W_OK) and not path.exists():
        raise UsageError(f"cannot write {target!r}: no permission to write in {ancestor}")


def write(text: str, target: str) -> None:
    """Write a result to a file (never only in part), or to standard output for `-`.

    Raises UsageError if the result cannot be written, for example to a folder that does not exist.
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
    """Whether the target is a device or a pipe, which a file must not replace."""
    path = Path(target)
    return path.exists() and not path.is_file() and not path.is_dir()


def _resolved(target: str) -> Path:
    """The path of the target without links, so that a link stays a link."""
    return Path(os.path.realpath(target))


def _replace(path: Path, text: str) -> None:
    # Two runs may write the same file at the same time: each has a partial file of its own.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def discard_output() -> None:
    """Discard all further standard output, also the output that Python writes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def console() -> Iterator[Console]:
    """A console for a result. Its text goes to standard output when the block ends.

    A rich console that writes directly would end the program if the reader has closed the pipe.
    Without a terminal, lines of tables have any width: a name is in one piece for who reads them.
    """
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WITHOUT_TERMINAL
    drawn = Console(file=sys.stdout, emoji=False, width=wide)  # their table takes long to import
    drawn.begin_capture()
    yield drawn
    with standard_output() as stream:  # also the end of a capture writes, if only no character
        stream.write(drawn.end_capture())


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Standard output for a result. A closed pipe (`| head`) does not change the exit status."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"standard output accepts only {error.encoding}: write to a file, which is UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write to standard output: {error.strerror}") from error
