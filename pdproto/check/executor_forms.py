"""How `--executor` names an executor."""

from typing import Final

LOCAL: Final = "local"
DASK: Final = "dask:"
FORMS: Final = f"{LOCAL}, {DASK}tcp://HOST:PORT or MODULE:FACTORY"
