"""The releases of vLLM with which this connector is tested."""

import re
from typing import Final

KNOWN: Final = ("0.31.0", "0.32.0")


def check(version: str) -> None:
    """Raise ValueError for a release with which this connector was not tested."""
    found = re.match(r"\d+(\.\d+)*", version)
    if found is None or found[0] not in KNOWN:
        raise ValueError(f"vLLM {version} is installed, but this connector knows "
                         f"{' and '.join(KNOWN)}: install one of these, or another pdproto")
