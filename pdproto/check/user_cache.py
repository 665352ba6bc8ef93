"""The cache folders of this user: one for each kind of result.

They lie in `XDG_CACHE_HOME` (XDG Base Directory Specification); the default is `~/.cache`.
"""

import os
from pathlib import Path
from typing import Final

RESULTS: Final = "results"  # of `pdproto check` (cache.py), and whole reports of `prove`
MUTANTS: Final = "mutants"  # of `pdproto mutate` (mutate/recalled.py)
PROOFS: Final = "proofs"  # of `pdproto prove` (prove/assurance.py)
HYPOTHESIS: Final = "hypothesis"  # files of Hypothesis itself (cli/fuzz.py)


def user_cache(kind: str) -> Path:
    """The folder for results of that kind. It may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pdproto" / kind
