"""Find the system that a user means: a known name, `module:attribute` or `file.py:attribute`."""

import importlib
import importlib.util
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from enum import EnumType
from importlib.machinery import SourceFileLoader
from inspect import signature
from itertools import islice
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from pdproto.spec import language
from pdproto.spec.language.edit import Postponed, postponed_errors
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.kinds import suggestion
from pdproto.spec.language.place import SpecError, written_in
from pdproto.spec.language.symbols import Function, Relation, Symbol
from pdproto.spec.language.system import System

SYMBOLS: Final = {"Function": Function, "ElementFunction": ElementFunction, "Relation": Relation}
HIDDEN: Final = ("self", "place", "like")  # parameters that no spec gives

NO_NAMES: Final[Mapping[str, str]] = {}

# Folders with code that is not the user's own: this package, Python and installed packages.
LIBRARIES: Final = (
    str(Path(__file__).resolve().parent.parent),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<",
)


SHOWN: Final = 4  # built-in systems in the message for a name that is none


class LoadError(Exception):
    """The system cannot be found or its module cannot be imported."""


def load(name: str, known: Mapping[str, str] = NO_NAMES) -> System:
    """The system of that name. known: built-in name -> `module:attribute`.

    Raises LoadError, or SpecError if the spec itself is malformed.
    """
    return load_with_module(name, known)[0]


def load_with_module(
    name: str, known: Mapping[str, str] = NO_NAMES
) -> tuple[System, ModuleType]:
    """The system and its module. Raises the errors of `load`."""
    target = known.get(name, name)
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise LoadError(_unnamed(name, known))
    module = load_module(module_name)
    system = vars(module).get(attribute)
    if isinstance(system, Postponed):
        raise system.error
    if isinstance(system, System):
        return system, module
    systems = [k for k, v in vars(module).items() if isinstance(v, System | Postponed)]
    if attribute in vars(module):
        wrong = f"{attribute!r} in {module_name} is a {type(system).__name__}, not a System"
    else:
        wrong = f"{module_name} has no {attribute!r}{suggestion(attribute, systems)}"
    raise LoadError(f"{wrong}; its systems: {', '.join(systems) or 'none'}")


def _unnamed(name: str, known: Mapping[str, str]) -> str:
    file = name.removesuffix(":")
    if Path(file).suffix == ".py":
        return f"{name!r} names no system: add the name that it has in the file, {file}:SYSTEM"
    near = suggestion(name, known)
    if near:
        return f"{name!r} is no built-in system{near}"
    return (
        f"{name!r} is no built-in system{_such_as(known)}: "
        f"give `module:attribute` or `path/to/file.py:attribute`"
    )


def _such_as(known: Mapping[str, str]) -> str:
    """The first few names, and how many more there are; "" if there are none."""
    if not known:
        return ""
    more = len(known) - SHOWN
    rest = f" and {more} more in docs/reference/systems.md" if more > 0 else ""
    return f" ({', '.join(islice(known, SHOWN))}{rest})"


def load_module(name: str) -> ModuleType:
    """The module with that name or path. Raises the errors of `load`."""
    # A spec that prints must not mix its text with the result, and one that exits must not end us.
    try:
        with redirect_stdout(sys.stderr), postponed_errors():
            return _from_file(Path(name)) if name.endswith(".py") else _from_path(name)
    except (SpecError, LoadError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise LoadError(_reason(name, error)) from error


def _from_path(name: str) -> ModuleType:
    """Import a module by name, also from the working directory, like `python -m`."""
    if Path(name).is_file():
        raise LoadError(f"{name} does not end in .py: a system is in a Python file")
    if not all(part.isidentifier() for part in name.split(".")):
        raise LoadError(f"{name!r} is neither a module nor a file that ends in .py")
    with _importing_from(Path.cwd()):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if name != missing and not name.startswith(f"{missing}."):
                raise
    path = Path(*name.split(".")).with_suffix(".py")
    hint = f"; for the file write {path}:…" if path.is_file() else ""
    raise LoadError(f"there is no module {name!r} here or among the installed packages{hint}")


class SourceLoader(SourceFileLoader):
    """Reads the text each time. Python's cache of bytecode still gives the old code for a file that
    was changed within a second and kept its length.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the text as it is now."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is a directory, and not a file" if path.is_dir() else "does not exist"
        raise LoadError(f"{path} {what}")
    # A file with the name of an imported module (json.py) must not replace that module.
    name = path.stem if path.stem not in sys.modules else f"{path.stem} in {path.resolve().parent}"
    loader = SourceLoader(name, str(path.resolve()))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # A spec may import modules of its folder, as in `python FILE`.
    with _importing_from(path.resolve().parent):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Look for modules in the folder first."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _reason(name: str, error: BaseException) -> str:
    """The error of the spec in one line, with the innermost line of the user's own code."""
    if isinstance(error, SyntaxError):
        line = f":{error.lineno}" if error.lineno else ""
        return f"{_relative(error.filename or name)}{line}: {error.msg}"
    if isinstance(error, OSError) and error.filename == str(Path(name).resolve()):
        return f"{name} cannot be read: {error.strerror}"
    told = _of_the_language(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    where = f"{_relative(own[-1].filename)}:{own[-1].lineno}{_owner(own[-1])}" if own else name
    if own and told:
        return f"{where}: {told}"
    said = " ".join(str(error).split())
    return f"{where}: importing {name} raised {type(error).__name__}{said and f': {said}'}"


def _owner(at: traceback.FrameSummary) -> str:
    """The row or the property that is written there, as ": row 'lend'"."""
    owner = written_in(at.filename, (at.lineno, at.colno, at.end_lineno, at.end_colno))
    return owner and f": {owner}"


def _of_the_language(error: BaseException) -> str:
    """The mistake in a use of the language, without its classes; "" for any other error."""
    match error:
        case TypeError():
            return _wrong_call(str(error))
        case AttributeError(obj=Symbol() as symbol):
            return f"{symbol} has no .{error.name}: {symbol.advice}"
        case AttributeError(obj=EnumType() as values):
            known = ", ".join(values.__members__)
            near = suggestion(str(error.name), values.__members__)
            return f"{values.__name__} has no member {error.name}{near}; it has: {known}"
        case NameError(name=str(word)) if word in language.__all__:
            return f"{word} is not imported: write `from pdproto.spec.language import {word}`"
        case ModuleNotFoundError(name=str(missing)) if str(error).endswith(f"named {missing!r}"):
            return f"there is no module {missing!r}: install its package, or correct the name"
        case ImportError(name=language.__name__):
            word = re.findall(r"cannot import name '(\w+)'", str(error))[0]
            return f"the language has no word {word}{suggestion(word, language.__all__)}"
    return ""


def _wrong_call(said: str) -> str:
    """A wrong call of a word of the language: the message of Python without our classes."""
    found = re.match(r"(?P<word>\w+)(\.\w+)?\(\) (?P<problem>.*)", said)
    word = found["word"] if found else ""
    if found is None or (word not in language.__all__ and word not in SYMBOLS):
        return ""
    method = found[2].removeprefix(".") if found[2] else ""
    if method == "__call__" and "keyword" in found["problem"]:
        return f"a {word.lower()} takes variables by place, as in heard(p)"
    name = word if method in ("", "__init__", "__call__") else f"{word.lower()}.{method}"
    takes = signature(getattr(language, word) if method in ("", "__init__") else
                      getattr(SYMBOLS.get(word) or getattr(language, word), method))
    names = [p.name for p in takes.parameters.values() if p.name not in HIDDEN]
    unexpected = re.search(r"unexpected keyword argument '(\w+)'", found["problem"])
    if unexpected:
        near = suggestion(unexpected[1], names)
        return f"{name} takes no {unexpected[1]}={near}; it takes: {', '.join(names)}"
    missing = re.findall(r"'(\w+)'", found["problem"])
    if "missing" in found["problem"]:
        return f"{name} lacks {' and '.join(missing)}; it takes: {', '.join(names)}"
    return f"{name} takes: {', '.join(names)}"


def _relative(path: str) -> str:
    """The path relative to the working directory if it lies below it; else unchanged."""
    below = Path(path).is_relative_to(Path.cwd())
    return str(Path(path).relative_to(Path.cwd())) if below else path
