"""The releases of vLLM with which this connector works.

Rule: a release with which the tests ran starts. Another one starts, with a warning, if the
      interface that the connector uses is the one of the newest of these, name by name.
"""

import logging
import re
from importlib import import_module
from typing import Final

KNOWN: Final = ("0.31.0", "0.32.0", "0.33.0")
SHOWN: Final = 6  # differences in a message

log = logging.getLogger("pdproto.vllm")


def check(version: str) -> None:
    """Raise ValueError for a release whose interface differs from the newest tested one's."""
    number = re.match(r"\d+(\.\d+)*(?!\w)", version)
    if number is not None and number[0] in KNOWN:
        return
    interface = import_module("pdproto.vllm.interface")  # it imports much of vLLM
    then, now = interface.recorded(), interface.found()
    changes = [*(f"{name} is gone" for name in sorted(then - now)),
               *(f"{name} is new" for name in sorted(now - then))]
    tested = f"{', '.join(KNOWN[:-1])} and {KNOWN[-1]}"
    if not changes:
        log.warning("vLLM %s is installed, and this connector is tested with %s: it starts, "
                    "because the interface that it uses is that of %s", version, tested, KNOWN[-1])
        return
    more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    raise ValueError(f"vLLM {version} is installed, and this connector is tested with {tested}. Of "
                     f"the interface of {KNOWN[-1]}, {', '.join(changes[:SHOWN])}{more}: install "
                     f"one of these releases, or another pdproto")
