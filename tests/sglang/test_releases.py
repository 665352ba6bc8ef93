"""Which releases of SGLang the backend starts under."""

import logging
from typing import Any

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import sglang
from sglang.srt.disaggregation.utils import DisaggregationMode

from pdproto.net.releases import Releases
from pdproto.sglang.interface import found
from pdproto.sglang.manager import PdprotoKVManager
from pdproto.sglang.plugin import plugin
from pdproto.sglang.versions import TESTED


def test_the_recorded_interface_is_that_of_the_tested_release() -> None:
    """Where it is not, read what has changed, and write the lines of found(), sorted."""
    plugin()  # which replaces one of these functions
    assert sglang.__version__ == TESTED.releases[-1]
    assert found() == TESTED.recorded()


def test_a_release_of_another_interface_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.5.22 is one: its KVArgs have no kv_layout."""
    monkeypatch.setattr(sglang, "__version__", "0.5.22")
    monkeypatch.setattr(Releases, "recorded", lambda _: found() | {"KVArgs.kv_heads"})
    args: Any = None
    with pytest.raises(ValueError, match=(
            r"SGLang 0\.5\.22 is installed, and pdproto is tested with 0\.5\.23\. Of the interface "
            r"of 0\.5\.23, KVArgs\.kv_heads is gone: install 0\.5\.23, or another pdproto")):
        PdprotoKVManager(args, DisaggregationMode.DECODE, None)


def test_a_release_of_the_same_interface_starts_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    TESTED.check("0.5.24", found, logging.getLogger())
    (line,) = caplog.messages
    assert line.startswith("SGLang 0.5.24 is installed, and pdproto is tested with 0.5.23: it ")
