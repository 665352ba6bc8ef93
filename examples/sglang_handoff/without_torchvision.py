"""An empty torchvision: SGLang imports it, and its hand-over never calls it."""

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAME = "torchvision"


class _Nothing:
    """Stands for any name that SGLang imports from there and does not use."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *given: Any, **_: Any) -> Any:
        return given[0] if given and callable(given[0]) else self  # it may decorate

    def __getattr__(self, name: str) -> "_Nothing":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)


class _Module(ModuleType):
    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        ours = fullname.partition(".")[0] == NAME
        return ModuleSpec(fullname, self, is_package=True) if ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        module.__dict__["__version__"] = "0.0"
        return module

    def exec_module(self, module: ModuleType) -> None:
        """An empty module."""


def install() -> None:
    """Install it if torchvision is missing."""
    if importlib.util.find_spec(NAME) is None:
        sys.meta_path.append(_Finder())
