"""How `--executor` names an executor."""

from typing import Final

LOCAL: Final = "local"
DASK: Final = "dask:"
MPI: Final = "mpi"
FORMS: Final = f"{LOCAL}, {DASK}tcp://HOST:PORT, {MPI} or MODULE:FACTORY"
