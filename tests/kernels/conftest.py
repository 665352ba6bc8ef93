"""Without a GPU, Triton interprets its kernels; it reads this when a kernel is defined."""

from __future__ import annotations

import os

import pytest

from pdproto.kernels import native
from tests.kernels.paths import PATHS
from tests.skips import INTERPRETED, NO_GPU

try:
    import torch
except ImportError:
    CUDA = TORCH = False
else:
    CUDA, TORCH = torch.cuda.is_available(), True
if not CUDA:
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(
    params=["native", "numpy", "interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> object:
    """Each way a copy can run; what this machine lacks is skipped by name."""
    if request.param == "native" and not native.available():
        pytest.skip("the native copies were not compiled: no C compiler at install")
    if request.param == "numpy":
        monkeypatch.setattr(native, "available", lambda: False)
    if request.param == "cuda" and not CUDA:
        pytest.skip(NO_GPU)
    if request.param == "interpreter" and (CUDA or not TORCH):
        pytest.skip(INTERPRETED if CUDA else "torch is not installed")
    return PATHS[request.param]
