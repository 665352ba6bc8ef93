"""Run a verb again whenever a file of its system is saved: `pdproto check --watch`.

Each run is a fork of this process, which has imported the checker and no spec. So a run starts in
milliseconds, and sees the files as they are now. A result that has not changed is recalled
(check/cache.py), so only what changed is explored.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pdproto.check.load import LIBRARIES
from pdproto.cli.options import UsageError

PAUSE_S: Final = 0.05  # between two looks at the files
CATALOGUED: Final = "pdproto.spec."
LANGUAGE: Final = "pdproto.spec.language"


def watched(run: Callable[[], int], system: str | None) -> int:
    """Run, and again after each change, until Ctrl-C; the status is that of the last run.

    run: runs the verb once. system: as on the command line.
    Raises UsageError where processes cannot fork.
    """
    if not hasattr(os, "fork"):
        raise UsageError("--watch needs an operating system that can fork")
    files: dict[str, int] = {}
    status = 0
    try:
        while True:
            began = time.monotonic()
            status, read = _forked(run)
            # A spec that cannot be read names no files: those of the run before still count.
            files = {name: _saved(name) for name in {*files, *read, *_named(system)}}
            print(f"pdproto: {time.monotonic() - began:.2f} s; "  # noqa: T201 - beside the answer
                  f"waiting for a change of {len(files)} files", file=sys.stderr, flush=True)
            changed = _wait(files)
            print(f"\n── {Path(changed).name} has changed", flush=True)  # noqa: T201 - as above
    except KeyboardInterrupt:
        return status


def _forked(run: Callable[[], int]) -> tuple[int, list[str]]:
    """One run in a process of its own: its status, and the files of its specs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 4
        try:
            _forget_specs()
            status = run()
            sys.stdout.flush()
            os.write(writing, json.dumps(sorted(_spec_files())).encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(told) if told else []


def _forget_specs() -> None:
    """Have the systems of the catalogue be imported as they are now."""
    for name in list(sys.modules):
        if name.startswith(CATALOGUED) and not name.startswith(LANGUAGE):
            del sys.modules[name]


def _spec_files() -> Iterator[str]:
    """The source files of all specs that are imported, and of what they import."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or not file.endswith(".py"):
            continue
        of_spec = name.startswith(CATALOGUED) and not name.startswith(LANGUAGE)
        if of_spec or not str(Path(file).resolve()).startswith(LIBRARIES):
            yield file


def changes(system: str | None) -> Callable[[], str]:
    """A function: the name of a file of the specs that are imported now which has been saved since;
    empty if there is none. system: as on the command line.
    """
    files = {name: _saved(name) for name in {*_spec_files(), *_named(system)}}
    return lambda: next((Path(name).name for name, before in files.items()
                         if _saved(name) not in (0, before)), "")


def _named(system: str | None) -> Iterator[str]:
    """The file of a system such as `page.py:SYSTEM`."""
    file = (system or "").rpartition(":")[0]
    if file.endswith(".py") and Path(file).is_file():
        yield str(Path(file).resolve())


def _saved(file: str) -> int:
    """When the file was saved, in nanoseconds; 0 if it is not there."""
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def _wait(files: dict[str, int]) -> str:
    """Wait until a file has been saved, and return its name."""
    while True:
        for name, before in files.items():
            # An editor may replace a file: for a moment there is none.
            if _saved(name) not in (0, before):
                return name
        time.sleep(PAUSE_S)
