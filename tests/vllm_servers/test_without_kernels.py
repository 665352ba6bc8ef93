"""vLLM's compiled kernels are replaced where they are missing, and only there."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

KERNELS = "_C_stable_libtorch.py"
REGISTRY = "model_executor/models/registry.py"
INSTALL = """
import sys
from examples.vllm_servers import without_kernels
print(without_kernels.install(), "vllm.vllm_flash_attn" in sys.modules)
"""
CALL = INSTALL + """
import torch
from vllm.model_executor.models import registry
from vllm import _C_stable_libtorch
given = torch.tensor([[1.0, -2.0, 3.0, 4.0]])
torch.ops._C.silu_and_mul(out := torch.empty(1, 2), given)
assert torch.allclose(out, torch.tensor([[0.7310586 * 3.0, -2.0 * 0.1192029 * 4.0]])), out
assert not torch.ops._C.cutlass_scaled_mm_supports_fp8(90)
assert torch.ops._C.weak_ref_tensor(out).data_ptr() == out.data_ptr()
assert registry._run_in_subprocess(lambda: 7) == 7
"""


def told(folder: Path, *files: str, code: str) -> str:
    """The output of a new Python that has a package vllm of these files."""
    for name in ("__init__.py", "vllm_flash_attn/__init__.py", "model_executor/__init__.py",
                 "model_executor/models/__init__.py", REGISTRY, *files):
        path = folder / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}){code}"],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_installation_with_kernels_keeps_them(tmp_path: Path) -> None:
    assert told(tmp_path, KERNELS, code=INSTALL) == "False False"


def test_kernels_that_are_missing_are_replaced(tmp_path: Path) -> None:
    assert told(tmp_path, code=CALL) == "True True"
