"""A process with lists takes what lists of Python take, and its trace conforms."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pdproto.cli.main import main
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.process import Process
from pdproto.runtime.trace_shared import SharedTrace
from tests.check.test_sequences import KINDS, MOST, lists

CALLS = 500
SYSTEMS = {kind: replace(one, properties=(), like=one) for kind in KINDS for one in [lists(kind)]}
ELEMENTS, ENUM, NUMBERS = (SYSTEMS[kind] for kind in ("elements", "an enum", "numbers"))
ATTRIBUTES = dict(zip(("elements", "an enum", "numbers"), ("ELEMENTS", "ENUM", "NUMBERS"),
                      strict=True))

# For each row the list after it, or None where it cannot fire; of the list, the one that is
# remembered, and the two values that the row takes.
Taken = list[str] | None
ROWS: Mapping[str, Callable[[list[str], list[str], str, str], Taken]] = {
    "append": lambda log, _, one, two: [*log, one] if len(log) < MOST and one != two else None,
    "add": lambda log, _, one, two: (
        [*log, two] if len(log) < MOST and one not in log and one != two else None),
    "tail": lambda log, *_: log[1:] if log else None,
    "halve": lambda log, *_: log[:len(log) // 2],
    "clear": lambda log, old, *_: [] if log == old else None,
    "last_first": lambda log, *_: [log[-1], *log[1:]] if len(log) > 1 else None,
    "put": lambda log, _, one, two: (
        [*log[:-1], two] if log and log[-1] == one and one != two else None),
    "remember": lambda log, *_: log,
}


def _kept(process: Process, kind: str) -> list[str]:
    """The list that the process keeps, as letters."""
    by_name = {symbol.name: symbol for symbol in SYSTEMS[kind].variables}
    read: Callable[..., Any] = process.machine.value
    found = []
    for place in range(read(by_name["log_length"], "x").value):
        symbol = by_name[f"log_{place}"]
        if kind == "elements":
            found += [one for one in "abc" if read(symbol, "x", one)]
        else:
            value = read(symbol, "x")
            found.append("ab"[KINDS[kind][1].index(value if kind == "an enum" else value.value)])
    return found


def _run(kind: str) -> tuple[bytes, set[str]]:
    """The trace of random calls, and the rows that have fired."""
    file, rng, fired = BytesIO(), Random(7), set()  # noqa: S311 - no secret
    process = Process(SYSTEMS[kind], "worker", "x", among=[("worker", "x")],
                      trace=SharedTrace("x", file))
    log, old = list[str](), list[str]()
    for _ in range(CALLS):
        row = rng.choice([*ROWS])
        named = row in ("append", "add", "put") and kind == "elements"
        one, two = rng.choices("abc", k=2) if named else "ab"
        after = ROWS[row](log, old, one, two)
        given = (one, two) if named else ()
        if after is None:
            with pytest.raises(LocalProtocolError):
                process.call(row, *given, now=0.0)
            continue
        process.call(row, *given, now=0.0)
        fired.add(row)
        log, old = after, log if row == "remember" else old
        assert _kept(process, kind) == log
    return file.getvalue(), fired


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_keeps_lists_and_its_trace_conforms(kind: str, tmp_path: Path) -> None:
    trace, fired = _run(kind)
    assert fired == {*ROWS}
    (tmp_path / "x.jsonl").write_bytes(trace)
    asked = ["trace", "--system", f"{__file__}:{ATTRIBUTES[kind]}", str(tmp_path / "x.jsonl")]
    assert main(asked) == 0
    # An empty list has no tail, so this cannot be the first row.
    first, second, *rest = trace.splitlines()
    wrong = json.dumps(json.loads(second) | {"row": "tail", "on": "call tail", "with": {}})
    (tmp_path / "x.jsonl").write_bytes(b"\n".join([first, wrong.encode(), *rest, b""]))
    assert main(asked) == 1


def test_another_element_is_rejected(tmp_path: Path) -> None:
    lines = _run("elements")[0].splitlines()
    put = next(k for k, line in enumerate(lines) if json.loads(line).get("row") == "put")
    line = json.loads(lines[put])
    line["with"] = {"i": line["with"]["j"], "j": line["with"]["i"]}  # not the last of the list
    (tmp_path / "x.jsonl").write_bytes(b"\n".join(
        [*lines[:put], json.dumps(line).encode(), *lines[put + 1:], b""]))
    assert main(["trace", "--system", f"{__file__}:ELEMENTS", str(tmp_path / "x.jsonl")]) == 1
