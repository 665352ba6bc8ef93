"""Runs a task in a worker of an executor: in a child process, which can be killed.

A worker may run several tasks in threads, and cannot end one of them. A child process can be ended
when its time is over, and the worker outlives a child that the system kills. A child imports the
program once and then runs one task after another. It ends with its worker.
"""

import atexit
import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from traceback import format_exc
from typing import Any, Final, TypeAlias

import pdproto
from pdproto.check.explore import silent
from pdproto.check.load import LoadError
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language.place import SpecError

# Only the stubs give `Connection` parameters.
Line: TypeAlias = "Connection[Any, Any]"

HOME: Final = Path(pdproto.__file__).parent
CODE: Final = {".py", ".c", ".h"}
IDLE_MAX: Final = 16  # children that a worker keeps
OF_THE_USER: Final = (SpecError, TooLargeError)  # no bug: who asks raises these as they are


@dataclass(frozen=True, slots=True)
class Call:
    """A task and its function. code: the digest of pdproto where the task comes from.

    folder: the working directory there, by which files of specs are named.
    """

    work: Callable[[Any, Any], Any]
    task: Any
    code: str
    folder: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a task, or why there is none.

    refused: a spec is missing here, or is another one. raised: an error of the user. error: the
    traceback of another error. late: the task was ended at its time limit.
    """

    answer: Any = None
    refused: str = ""
    raised: Exception | None = None
    error: str = ""
    late: bool = False


class ChildLostError(Exception):
    """The child process died, for example because memory ran out."""


def code() -> str:
    """A digest of pdproto as it is installed here, with its path, which results name."""
    return f"{HOME} {contents()}"


@cache
def contents() -> str:
    """A digest of the code of pdproto, wherever it is installed."""
    text = hashlib.blake2b(digest_size=16)
    for folder, _, names in sorted(os.walk(HOME, followlinks=True)):
        for name in sorted(names):
            if Path(name).suffix in CODE:
                text.update(name.encode() + b"\0")
                text.update(Path(folder, name).read_bytes())
    return text.hexdigest()


def called(work: Callable[[Any, Any], Any], task: Any) -> bytes:
    """The call as bytes. A worker hands them to its child, which alone reads them."""
    return pickle.dumps(Call(work, task, code(), str(Path.cwd())))


def run_call(call: bytes, limit_s: float | None) -> bytes:
    """Run a call in a child process, and return the Reply as bytes.

    limit_s: after so many seconds the child is killed; None for no limit. Raises ChildLostError.
    """
    try:
        child = _idle.pop()
    except IndexError:
        child = _Child()
    reply = child.reply(call, limit_s)
    if reply is None:
        return pickle.dumps(Reply(late=True))
    if len(_idle) < IDLE_MAX:
        _idle.append(child)
    else:
        child.end()
    return reply


class _Child:
    """A process that runs calls. It ends when its standard input does, which its worker holds."""

    def __init__(self) -> None:
        self._line, there = Pipe()
        number = there.fileno()
        self._process: Final = subprocess.Popen(  # noqa: S603 - this module
            [sys.executable, "-c", f"from {__name__} import serve; serve({number})"],
            pass_fds=(number,), stdin=subprocess.PIPE,
        )
        there.close()

    def reply(self, call: bytes, limit_s: float | None) -> bytes | None:
        """The reply; None if the time is over. Then, and after an error, the child has ended."""
        try:
            self._line.send_bytes(call)
            if self._line.poll(limit_s):
                return self._line.recv_bytes()
        except (EOFError, OSError):
            status = self.end()
            raise ChildLostError(f"the process of a task died (status {status})") from None
        except BaseException:
            self.end()
            raise
        self.end()
        return None

    def end(self) -> int:
        """Kill the child; returns its exit status."""
        with suppress(ProcessLookupError):
            self._process.kill()
        status = self._process.wait()
        self.close()
        return status

    def close(self) -> None:
        """Close this process's ends of the child's connections."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._line.close()


# Threads of a worker share it: a pop or an append of a list is one step.
_idle: Final[list[_Child]] = []


def _leave_to_the_parent() -> None:
    """A fork of a worker, such as that of a ProcessPoolExecutor, uses no child of the worker."""
    while _idle:
        _idle.pop().close()


def _end_idle() -> None:
    while _idle:
        _idle.pop().end()


os.register_at_fork(after_in_child=_leave_to_the_parent)
atexit.register(_end_idle)


def _answer(sent: bytes) -> Reply:
    try:
        call: Call = pickle.loads(sent)  # noqa: S301 - from the user's own program
        if call.code != code():
            return Reply(refused=f"pdproto in {HOME} is not the one that asks: install the same "
                                 f"version at the same path")
        if Path(call.folder).is_dir():
            os.chdir(call.folder)
        return Reply(call.work(call.task, silent))
    except LoadError as error:
        return Reply(refused=str(error))
    except OF_THE_USER as error:
        return Reply(raised=error)
    except Exception:
        return Reply(error=format_exc())


def serve(number: int) -> None:
    """Run calls in a child, until its worker ends. number: of the file of its connection."""
    line = Connection(number)
    Thread(target=_end_with_the_worker, daemon=True).start()
    while True:
        try:
            sent = line.recv_bytes()
        except EOFError:
            return
        line.send_bytes(pickle.dumps(_answer(sent)))


def _end_with_the_worker() -> None:
    os.read(0, 1)  # nothing is written to it
    os._exit(0)
