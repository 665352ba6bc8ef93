"""The releases of SGLang with which this backend is tested, and where the older one differs."""

from pathlib import Path
from typing import Any, Final

from pdproto.net.releases import Releases

TESTED: Final = Releases("SGLang", ("0.5.22", "0.5.23"), Path(__file__).with_name("interface.txt"))


def kv_layout_of(args: Any) -> str | None:
    """The layout of KV bytes in KVArgs. 0.5.22 has no such field, and no pool with two layouts."""
    found: str | None = getattr(args, "kv_layout", None)  # interface.txt has the field
    return found
