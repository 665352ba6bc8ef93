"""The releases of SGLang with which this backend is tested, and where the older one differs."""

from pathlib import Path
from typing import Any, Final

from pdproto.net.releases import Releases

TESTED: Final = Releases("SGLang", ("0.5.22", "0.5.23"), Path(__file__).with_name("interface.txt"))


def from_0_5_23(owner: Any, name: str) -> Any:
    """A field that 0.5.23 has added; None under 0.5.22, which knows no case but that of None."""
    return getattr(owner, name, None)
