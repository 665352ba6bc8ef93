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
from tests.sglang.releases import of_newest


@of_newest
def test_the_recorded_interface_is_that_of_the_tested_release() -> None:
    """Where it is not, read what has changed, and write the lines of found(), sorted."""
    plugin()  # which replaces one of these functions
    assert found() == TESTED.recorded()


def test_a_release_of_another_interface_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded interface has a field of KVArgs that the installed one lacks."""
    monkeypatch.setattr(sglang, "__version__", "0.5.21")
    monkeypatch.setattr(Releases, "recorded", lambda _: found() | {"KVArgs.kv_heads"})
    args: Any = None
    with pytest.raises(ValueError, match=(
            r"SGLang 0\.5\.21 is installed, and pdproto is tested with 0\.5\.22 and 0\.5\.23\. Of "
            r"the interface of 0\.5\.23, KVArgs\.kv_heads is gone: install 0\.5\.22 or "
            r"0\.5\.23, or another pdproto")):
        PdprotoKVManager(args, DisaggregationMode.DECODE, None)


@of_newest
def test_a_release_of_the_same_interface_starts_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    TESTED.check("0.5.24", found, logging.getLogger())
    (line,) = caplog.messages
    assert line.startswith("SGLang 0.5.24 is installed, and pdproto is tested with 0.5.22 and "
                           "0.5.23: it ")
