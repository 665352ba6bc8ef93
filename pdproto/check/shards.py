"""Shards of one run: each does a part of the tasks, and writes its answers to a file.

The digest of a task's name says which shard does it, so shards need not know of each other. A file
also says what was asked: the verb, its arguments, the code of pdproto, and the tables. Only answers
to the same question are put together. A task without an answer is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

import msgspec

import pdproto
from pdproto.check.load import LoadError
from pdproto.check.task_process import contents

Answer = TypeVar("Answer")

UNMADE: Final = "it is no file of `--shard`"


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """Part `number` of `count`, from 1 on."""

    number: int
    count: int

    def has(self, task: str) -> bool:
        """Whether the task of this name belongs to the shard."""
        return _number(task, self.count) == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def _number(task: str, count: int) -> int:
    digest = blake2b(task.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count + 1


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """What all shards of a run are asked.

    arguments: of the verb, without those that change no answer. tables: a digest of tables that are
    not part of pdproto; "" if all are. code: a digest of pdproto.
    """

    verb: str
    arguments: tuple[str, ...]
    tables: str = ""
    version: str = pdproto.__version__
    code: str = field(default_factory=contents)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """The content of a shard's file. answers: a JSON list."""

    question: RunQuestion
    shard: Shard
    answers: msgspec.Raw


def encoded(question: RunQuestion, shard: Shard, answers: Sequence[object]) -> str:
    """The text of a shard's file."""
    raw = msgspec.Raw(msgspec.json.encode(answers))
    return msgspec.json.encode(ShardFile(question, shard, raw)).decode()


@dataclass(frozen=True, slots=True)
class Merged:
    """The files of one run, in the order of their shards. files: by name."""

    files: Mapping[str, ShardFile]

    @property
    def question(self) -> RunQuestion:
        """The common question."""
        return next(iter(self.files.values())).question

    def answers(self, kind: type[Answer]) -> list[Answer]:
        """The answers of all files. Raises LoadError for a file with answers of another kind."""
        found: list[Answer] = []
        for name, file in self.files.items():
            try:
                found += msgspec.json.decode(file.answers, type=list[kind])  # type: ignore[valid-type]
            except msgspec.DecodeError as error:
                raise LoadError(f"{name}: {UNMADE}: {error}") from error
        return found

    def require_tables(self, tables: str) -> None:
        """Raise LoadError unless the files are about tables with this digest."""
        if self.question.tables != tables:
            raise LoadError(f"{next(iter(self.files))} is about other tables than those that "
                            f"`{_command(self.question)}` reads here")

    def lacking(self, tasks: Iterable[str]) -> str:
        """Why the tasks with these names have no answer; "" if there are none."""
        there = {file.shard for file in self.files.values()}
        (count,) = {shard.count for shard in there}
        shards = sorted({Shard(_number(task, count), count) for task in tasks})
        return "; ".join(f"shard {shard} {'is incomplete' if shard in there else 'is missing'}"
                         for shard in shards)


def merged(names: Sequence[str]) -> Merged:
    """The shards in these files. Raises LoadError for files that do not belong together."""
    files = sorted(((name, _read(name)) for name in names), key=lambda one: one[1].shard)
    first, one = files[0]
    for name, other in files:
        _require_same(first, one, name, other)
    for (name, one), (again, other) in pairwise(files):
        if one.shard == other.shard:
            raise LoadError(f"{name} and {again} are both shard {one.shard}")
    here = contents()
    if one.question.code != here:
        raise LoadError(f"{first} is of pdproto {one.question.version} with other code than "
                        f"pdproto {pdproto.__version__} here: merge with the pdproto that wrote it")
    return Merged(dict(files))


def _read(name: str) -> ShardFile:
    try:
        return msgspec.json.decode(Path(name).read_bytes(), type=ShardFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LoadError(f"{name}: {UNMADE}: {error}") from error


def _require_same(first: str, one: ShardFile, name: str, other: ShardFile) -> None:
    ours, theirs = one.question, other.question
    if ours.version != theirs.version:
        problem = f"is of pdproto {theirs.version}, and {first} of pdproto {ours.version}"
    elif ours.code != theirs.code:
        problem = f"was written by other code of pdproto than {first}"
    elif (ours.verb, ours.arguments) != (theirs.verb, theirs.arguments):
        problem = f"answers `{_command(theirs)}`, and {first} `{_command(ours)}`"
    elif ours.tables != theirs.tables:
        problem = f"is about other tables than {first}"
    elif one.shard.count != other.shard.count:
        problem = f"is shard {other.shard}, and {first} is shard {one.shard}"
    else:
        return
    raise LoadError(f"{name} {problem}: merge the shards of one run")


def _command(question: RunQuestion) -> str:
    return " ".join((question.verb, *question.arguments))
