"""Find the system that a user means: a built-in name, `module:attribute` or `file.py:attribute`."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from pdproto.spec.language.place import SpecError
from pdproto.spec.language.system import System

BUILT_IN: Final[Mapping[str, str]] = {
    "two-phase-commit": "pdproto.spec.examples.two_phase_commit:SYSTEM",
    "lock-server": "pdproto.spec.examples.lock_server:SYSTEM",
    "lock-server-broken": "pdproto.spec.examples.lock_server_broken:SYSTEM",
    "ring-election": "pdproto.spec.examples.ring_election:SYSTEM",
}


class LoadError(Exception):
    """The system cannot be found or its module cannot be imported."""


def load(name: str) -> System:
    """The system of that name. Raises LoadError, or SpecError if the spec itself is malformed."""
    target = BUILT_IN.get(name, name)
    module_name, colon, attribute = target.rpartition(":")
    if not colon:
        known = ", ".join(BUILT_IN)
        raise LoadError(
            f"{name!r} is no built-in system ({known}): "
            f"give `module:attribute` or `path/to/file.py:attribute`"
        )
    module = _module(module_name)
    try:
        system = getattr(module, attribute)
    except AttributeError:
        have = ", ".join(k for k, v in vars(module).items() if isinstance(v, System)) or "none"
        raise LoadError(f"{module_name} has no {attribute!r}; its systems: {have}") from None
    if not isinstance(system, System):
        raise LoadError(f"{name} is a {type(system).__name__}, and not a System")
    return system


def _module(name: str) -> ModuleType:
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (SpecError, LoadError):
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise LoadError(f"there is no module {name!r}; for a file write {name}.py:…") from None
        raise LoadError(_reason(name, error)) from error
    except Exception as error:
        raise LoadError(_reason(name, error)) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise LoadError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # A spec may import its neighbours, as it could if it were run.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def _reason(name: str, error: Exception) -> str:
    """What the spec raised, with the line of the spec itself."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else name
    return f"{where}: importing {name} raised {type(error).__name__}: {error}"
