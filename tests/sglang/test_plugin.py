"""The plugin replaces a function of SGLang in all modules that have imported it by name."""

import sys
from types import ModuleType

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from pdproto.sglang.plugin import GET, _replace


def test_it_passes_over_what_is_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """sys.modules may hold any object: Cython has left one there that has no name."""
    utils, importer = ModuleType("sglang.made_utils"), ModuleType("sglang.made_importer")
    for module in (utils, importer):
        setattr(module, GET, max)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "made_parallel", object())
    _replace(utils, min)
    assert getattr(importer, GET) is getattr(utils, GET) is min
