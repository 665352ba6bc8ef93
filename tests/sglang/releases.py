"""Tests of the newest tested release of SGLang alone, where an older one runs the others."""

from typing import Final

import pytest
import sglang

from pdproto.sglang.versions import TESTED

NEWEST: Final = TESTED.releases[-1]
of_newest: Final = pytest.mark.skipif(
    sglang.__version__ != NEWEST, reason=f"SGLang {sglang.__version__} is not {NEWEST}")
