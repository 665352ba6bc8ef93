"""Run what Triton compiles for a GPU, PTX, on a CPU: a thread block as numpy arrays, lane by lane.

It knows the instructions that our kernels are compiled to, and raises for any other. It shows wrong
results, accesses out of bounds and out of alignment, and how many sectors of memory each request of
a warp touches. It shows no race and no time: blocks run one after the other, and the lanes of a
block in step, so a branch that lanes disagree on is an error.

Registers hold bits, as unsigned integers, [lane]; predicates are booleans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.kernels import ptx_values as values
from tests.kernels.ptx_values import UNSIGNED, Bits

WARP: Final = 32
SHARED_BYTES: Final = 1 << 16
SECTOR: Final = 32
LINE: Final = 128
_FIRST: Final = 4096  # no address is below


class PtxError(Exception):
    """A program did something wrong, or something that is not known here."""


@dataclass
class Requests:
    """Global accesses of one width by whole warps: requests, and what they touched."""

    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Instruction:
    """One instruction: `@negated guard name operands;`."""

    text: str
    guard: str
    negated: bool
    name: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass
class Launch:
    """What the blocks of one launch have in common. `spans` are [start, end) of all its memory."""

    values: dict[str, int]
    grid: int
    spans: NDArray[np.uint64]
    counts: dict[str, Requests] = field(default_factory=dict)


class Program:
    """A kernel, parsed once; `run` runs a grid of it."""

    def __init__(self, ptx: str) -> None:
        head, body = ptx.split("\n{", 1)
        body = body.partition("// -- End function")[0]
        self.threads: Final = int(re.findall(r"\.(?:reqntid|maxntid) (\d+)", head)[0])
        self.parameters: Final = re.findall(r"\.param [^,)]*?(\w+)(?=[,\n)])", head)
        self.code: Final[list[Instruction]] = []
        self.labels: Final[dict[str, int]] = {}
        for line in _statements(body):
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.code)
            else:
                self.code.append(_parsed(line))

    def run(
        self, arguments: Sequence[int], grid: int, spans: Sequence[tuple[int, int]]
    ) -> dict[str, Requests]:
        """Run blocks 0 to grid - 1 in turn. Arguments are numbers, addresses among them.

        `spans` are the [start, end) that it may read and write. Returns the global accesses by
        kind and bytes of a lane, such as "ld16".
        """
        padded = [*arguments, *[0] * (len(self.parameters) - len(arguments))]
        named = dict(zip(self.parameters, padded, strict=True))
        launch = Launch(named, grid, _merged(spans))
        with np.errstate(all="ignore"):
            for block in range(grid):
                _Block(self, launch, block).run()
        return launch.counts


def _statements(body: str) -> list[str]:
    """Statements and labels without comments, declarations and the braces around scopes."""
    body = re.sub(r"//.*|/\*.*?\*/", "", body)
    body = re.sub(r"\{\s*((?:%\w+|_)(?:\s*,\s*(?:%\w+|_))*)\s*\}", r"<\1>", body)
    body = re.sub(r"^\s*\.(?:loc|file|section|pragma).*$", "", body, flags=re.MULTILINE)
    body = re.sub(r"^(\s*[$\w]+):\s*$", r"\1:;", body, flags=re.MULTILINE)
    found = (" ".join(part.split()) for part in re.sub(r"[{}]", " ", body).split(";"))
    return [part for part in found if part and not part.startswith(".")]


def _parsed(text: str) -> Instruction:
    match = re.match(r"(?:@(!?)(%\w+) )?([\w.:]+) ?(.*)", text)
    if match is None:
        raise PtxError(f"not an instruction: {text}")
    negated, guard, name, rest = match.groups()
    operands = re.findall(r"<[^>]*>|\[[^\]]*\]|[^,\s]+", rest)
    return Instruction(text, guard or "", bool(negated), tuple(name.split(".")), tuple(operands))


def _merged(spans: Sequence[tuple[int, int]]) -> NDArray[np.uint64]:
    """Spans in order, those that touch joined: uint64 [span, 2]."""
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    return np.array(merged, np.uint64).reshape(-1, 2)


def _memory(width: int) -> Bits:
    """All of this process's memory, in words of so many bytes from address `_FIRST` on."""
    interface = {
        "version": 3, "typestr": f"<u{width}", "data": (_FIRST, False),
        "shape": (((1 << 47) - _FIRST) // width,),
    }  # fmt: skip
    return np.asarray(SimpleNamespace(__array_interface__=interface))


MEMORY: Final = {width: _memory(width) for width in (1, 2, 4, 8)}


class _Block:
    """One thread block while it runs."""

    def __init__(self, program: Program, launch: Launch, number: int) -> None:
        self.program, self.launch, self.lanes = program, launch, program.threads
        self.registers: dict[str, NDArray[Any]] = {
            "%tid.x": np.arange(self.lanes, dtype=np.uint32),
            "%ctaid.x": self._all(number, 32),
            "%nctaid.x": self._all(launch.grid, 32),
        }
        self.shared = np.full(SHARED_BYTES, 0xCD, np.uint8)
        self.at = 0

    def run(self) -> None:
        code = self.program.code
        while self.at < len(code):
            step = code[self.at]
            self.at += 1
            try:
                self._step(step)
            except PtxError as error:
                raise PtxError(f"{error}: {step.text}") from None
            except (KeyError, TypeError, ValueError, IndexError) as error:
                why = f"not known here, {type(error).__name__} {error}"
                raise PtxError(f"{why}: {step.text}") from error

    def _step(self, step: Instruction) -> None:
        active = None
        if step.guard:
            active = self.registers[step.guard] ^ step.negated
        if step.name[0] in {"bra", "ret"}:
            self._jump(step, active)
        elif step.name[0] in CONTROL:
            CONTROL[step.name[0]](self, step, active)
        else:
            self._compute(step, active)

    def _jump(self, step: Instruction, active: NDArray[np.bool_] | None) -> None:
        if active is not None and not active.all():
            if active.any():
                raise PtxError("lanes disagree on a branch")
            return
        self.at = self.program.labels[step.operands[0]] if step.operands else len(self.program.code)

    def _compute(self, step: Instruction, active: NDArray[np.bool_] | None) -> None:
        """An instruction that computes each lane's result from its own operands."""
        target, *sources = step.operands
        widths, compute = values.operation(step.name)
        told = [self.read(source, width) for source, width in zip(sources, widths, strict=True)]
        self.write(target, compute(*told), active)

    def _all(self, number: int, width: int) -> Bits:
        return np.full(self.lanes, number & ((1 << width) - 1), UNSIGNED[width])

    def read(self, operand: str, width: int) -> NDArray[Any]:
        """The bits of a register or constant; of width 1, a predicate."""
        if operand.startswith("<"):
            return values.joined([self.read(one, width // 2) for one in _group(operand)])
        if operand.startswith("%"):
            found = self.registers[operand]
            return found if width == 1 else found.astype(UNSIGNED[width], copy=False)
        if width == 1:
            return np.full(self.lanes, int(operand) != 0)
        if operand == "global_smem":
            return self._all(0, width)
        if operand.startswith("0f"):  # the bits of a float
            operand = operand.replace("0f", "0x", 1)
        return self._all(int(operand.rstrip("U"), 0), width)

    def write(self, target: str, value: NDArray[Any], active: NDArray[np.bool_] | None) -> None:
        if target.startswith("<"):
            for name, half in zip(_group(target), values.halves(value), strict=True):
                self.write(name, half, active)
            return
        if target == "_":
            return
        if active is not None and target in self.registers:
            value = np.where(active, value, self.registers[target])
        self.registers[target] = value

    def address(self, operand: str) -> NDArray[np.uint64]:
        match = re.fullmatch(r"\[\s*([%\w]+)\s*(?:\+\s*(-?\w+)\s*)?\]", operand)
        if match is None:
            raise ValueError(operand)
        base, offset = match.groups()
        return self.read(base, 64) + self._all(int(offset or "0", 0), 64)

    def check(self, address: NDArray[np.uint64], width: int) -> None:
        """Refuse global addresses that are not aligned, or not of the launch's memory."""
        if (address % np.uint64(width)).any():
            raise PtxError(f"not aligned to {width} bytes")
        spans = self.launch.spans
        place = np.searchsorted(spans[:, 0], address, "right") - 1
        if (place < 0).any() or (address + np.uint64(width) > spans[place, 1]).any():
            raise PtxError("outside of all pools, chunks and digests")

    def count(self, kind: str, address: NDArray[np.uint64], active: NDArray[np.bool_]) -> None:
        counted = self.launch.counts.setdefault(kind, Requests())
        for first in range(0, self.lanes, WARP):
            warp = address[first : first + WARP][active[first : first + WARP]]
            if warp.size:
                counted.requests += 1
                counted.lanes += warp.size
                counted.sectors += np.unique(warp // np.uint64(SECTOR)).size
                counted.lines += np.unique(warp // np.uint64(LINE)).size


def _group(operand: str) -> list[str]:
    return [name.strip() for name in operand[1:-1].split(",")] if operand[0] == "<" else [operand]


Active = NDArray[np.bool_] | None


def _access(block: _Block, step: Instruction, active: Active) -> None:
    """ld and st, of parameters, shared and global memory."""
    kind, space, loads = step.name[0], step.name[1], step.name[0] == "ld"
    width = int(step.name[-1][1:]) // 8
    if space == "param":
        number = block.launch.values[step.operands[1].strip("[]")]
        return block.write(step.operands[0], block._all(number, 8 * width), active)
    group, where = step.operands if loads else reversed(step.operands)
    names, address = _group(group), block.address(where)
    does = np.ones(block.lanes, np.bool_) if active is None else active
    if space == "global":
        block.check(address[does], width * len(names))
        block.count(f"{kind}{width * len(names)}", address, does)
        memory, address = MEMORY[width], address - np.uint64(_FIRST)
    else:
        memory = block.shared.view(UNSIGNED[8 * width])
        if (address[does] % np.uint64(width * len(names))).any():
            raise PtxError("shared memory is not aligned")
    for number, name in enumerate(names):
        words = address[does] // np.uint64(width) + np.uint64(number)
        if loads:
            found = np.zeros(block.lanes, UNSIGNED[8 * width])
            found[does] = memory[words]
            block.write(name, found, active)
        else:
            memory[words] = block.read(name, 8 * width)[does]
    return None


def _atomic(block: _Block, step: Instruction, active: Active) -> None:
    """atom and red on 32 bits of global memory: min.s32 and or.b32, lane by lane."""
    target, where, source = step.operands if step.name[0] == "atom" else ("_", *step.operands)
    address, told = block.address(where), block.read(source, 32)
    does = np.flatnonzero(np.ones(block.lanes, np.bool_) if active is None else active)
    block.check(address[does], 4)
    before = np.zeros(block.lanes, np.uint32)
    for lane in does:
        place = (int(address[lane]) - _FIRST) // 4
        old = before[lane] = MEMORY[4][place]
        if step.name[-2:] == ("or", "b32"):
            MEMORY[4][place] = old | told[lane]
        elif step.name[-2:] == ("min", "s32"):
            MEMORY[4][place] = min(old.view(np.int32), told[lane].view(np.int32)).view(np.uint32)
        else:
            raise PtxError("not known here")
    block.write(target, before, active)


def _shuffle(block: _Block, step: Instruction, active: Active) -> None:
    """shfl.sync: bfly and idx over a whole warp."""
    target, source, by, *_ = step.operands
    lane = np.arange(block.lanes, dtype=np.uint32)
    told = block.read(by, 32)
    if "bfly" in step.name:
        other = lane ^ told
    elif "idx" in step.name:
        other = (lane & ~np.uint32(31)) | (told & np.uint32(31))
    else:
        raise PtxError("not known here")
    block.write(target.split("|")[0], block.read(source, 32)[other], active)


def _reduce(block: _Block, step: Instruction, active: Active) -> None:
    """redux.sync: one result for each warp."""
    target, source, _ = step.operands
    told = block.read(source, 32).reshape(-1, WARP)
    if step.name[-2:] == ("add", "s32"):
        result = told.sum(axis=1, dtype=np.uint32)
    elif step.name[-2:] == ("max", "s32"):
        result = told.view(np.int32).max(axis=1).view(np.uint32)
    else:
        raise PtxError("not known here")
    block.write(target, np.repeat(result, WARP), active)


def _barrier(block: _Block, step: Instruction, active: Active) -> None:
    """bar.sync: lanes are in step here already."""


def _matrix(block: _Block, step: Instruction, active: Active) -> None:
    """ldmatrix and stmatrix: 8 by 8 matrices of 16 bits, a row from the address of each lane."""
    loads = step.name[0] == "ldmatrix"
    group, where = step.operands if loads else reversed(step.operands)
    if "trans" in step.name:
        raise PtxError("not known here")
    rows, words = block.address(where).reshape(-1, WARP), block.shared.view(np.uint32)
    lane = np.arange(WARP)
    for number, name in enumerate(_group(group)):
        place = rows[:, 8 * number + lane // 4] // np.uint64(4) + (lane % 4).astype(np.uint64)
        if loads:
            block.write(name, words[place].reshape(-1), active)
        else:
            words[place.reshape(-1)] = block.read(name, 32)


CONTROL: Final[dict[str, Callable[[_Block, Instruction, Active], None]]] = {
    "ld": _access, "st": _access, "atom": _atomic, "red": _atomic, "shfl": _shuffle,
    "redux": _reduce, "bar": _barrier, "ldmatrix": _matrix, "stmatrix": _matrix,
}  # fmt: skip
