"""The executors that `--executor` names, by the protocol of `concurrent.futures.Executor`."""

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, Final

from pdproto.check.executor_forms import DASK, FORMS, LOCAL
from pdproto.check.executor_tasks import ExecutorMaker
from pdproto.check.load import LoadError, load_module

CONNECT_S: Final = 10.0  # to reach a scheduler, and for its first worker


def maker_of(text: str) -> ExecutorMaker | None:
    """The executor that the text names; None for worker processes of this program.

    Raises ValueError for a text of another form, ModuleNotFoundError if a package is missing, and
    LoadError for a module that cannot be imported, or has no such callable.
    """
    if text == LOCAL:
        return None
    if text.startswith(DASK):
        address = text.removeprefix(DASK)
        if not address:
            raise ValueError(f"{text!r} names no scheduler: write {DASK}tcp://HOST:PORT")
        return ExecutorMaker(lambda: DaskExecutor(address))
    return ExecutorMaker(_factory(text))


def _factory(text: str) -> Callable[[], Executor]:
    """The callable `MODULE:FACTORY`, which returns an executor."""
    module, _, name = text.rpartition(":")
    if not (module and name):
        raise ValueError(f"want {FORMS}, not {text[:60]!r}")
    make = getattr(load_module(module), name, None)
    if not callable(make):
        raise LoadError(f"--executor: {module} has no callable {name!r} that returns an executor")

    def made() -> Executor:
        executor = make()
        if not isinstance(executor, Executor):
            raise LoadError(f"--executor: {text} returned a {type(executor).__name__}, and not a "
                            f"concurrent.futures.Executor")
        return executor

    return made


class DaskExecutor(Executor):
    """The workers of a Dask scheduler. It also counts them, because tasks wait for a first one."""

    def __init__(self, address: str) -> None:
        """Raises OSError if no scheduler answers there, or if it has no worker."""
        distributed = importlib.import_module("distributed")
        try:
            self._client: Final = distributed.Client(
                address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise OSError(f"no Dask scheduler answers at {address}: start one with "
                          f"`dask scheduler`, and workers with `dask worker`") from error
        # Impure, or a task that is asked again would be the one that was lost.
        self._executor: Final[Executor] = self._client.get_executor(pure=False)
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError:
            self.shutdown(wait=False)
            raise OSError(f"the Dask scheduler at {address} has no worker: start some with "
                          f"`dask worker {address}`") from None

    def workers(self) -> int:
        """The number of workers at present."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a worker."""
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the scheduler. Tasks that have not begun are dropped."""
        del cancel_futures  # Dask drops the tasks of a client that leaves
        self._executor.shutdown(wait=wait)
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=CONNECT_S)
