"""A type checker sees a wrong sort, a wrong number of arguments and a misspelt state."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

# Every line that must be refused says so, with mypy's code; every other line must be fine.
SNIPPET: Final = '''
from pdproto.spec.language import (
    ANY, Call, Machine, Message, Rigid, Row, Sort, State, Table, all_of, auto,
    each, exists, forall,
)


class Worker(Sort):
    """Who does the work."""


class Item(Sort):
    """What there is to do."""


class Phase(State):
    IDLE = auto()
    BUSY = auto()


class Mood(State):
    CALM = auto()
    CROSS = auto()


w, v, i, j = Worker("w"), Worker("v"), Item("i"), Item("j")
worker = Machine("worker", w)
boss = Machine("boss")
phase = worker.function("phase", Phase, edges={Phase.IDLE: (Phase.BUSY,)})
step = worker.function("step", Phase, Item)
worker.function("gait", Phase, init=Phase.BUSY)
best = worker.function("best", Item)
friend = worker.function("friend", Worker, Item)
has = worker.relation("has", Item)
pair = worker.relation("pair", Item, Worker)
mood = boss.function("mood", Mood)
near = Rigid("near", w, v)
report = Message("report", w, i, sender=worker, receiver=boss)
stop = Message("stop", sender=boss, receiver=worker)

# Arguments: their sorts and their number.
phase(w)
phase(i)  # error: arg-type
phase()  # error: call-arg
phase(w, v)  # error: call-arg
phase(Worker)  # error: arg-type
step(w, i)
step(i, w)  # error: arg-type, arg-type
step(w)  # error: call-arg
has(w, ANY)
has(w, 0)  # error: arg-type
pair(w, i, v)
pair(w, i, j)  # error: arg-type
mood()
mood(w)  # error: call-arg
near(w, v)
near(w, i)  # error: arg-type
report(w, i)
report(i, w)  # error: arg-type, arg-type
stop(w)  # error: call-arg
worker.at(v)
worker.at(i)  # error: arg-type
boss.at(w)  # error: call-arg
w.same(v)
w.differs(i)  # error: arg-type

# Values: of the function's own enum, spelt as they are declared.
# A comparison with a stranger is a plain truth to mypy, and refused where a formula belongs.
all_of(phase(w) == Phase.IDLE, phase(w) != Phase.BUSY)
all_of(phase(w) == Phase.IDEL)  # error: attr-defined
all_of(phase(w) == Mood.CALM)  # error: arg-type
all_of(phase(w) != Mood.CALM)  # error: arg-type
Row("z", when=[phase(w) == Mood.CALM])  # error: list-item
Row("y", when=phase(w) == "idle")  # error: arg-type
phase(w).among(Phase.IDLE, Phase.BUSY)
phase(w).among(Phase.IDLE, Mood.CALM)  # error: arg-type
phase(w).to(Phase.BUSY)
phase(w).to(Mood.CALM)  # error: arg-type
phase(w).to(True)  # error: arg-type
has(w, i).to(True)
has(w, i).to(Phase.BUSY)  # error: arg-type
worker.function("pace", Phase, edges={Mood.CALM: ()})  # error: misc

# Functions into a sort: an element of that sort, or none.
all_of(best(w) == i, best(w) != j, best(w).unset, best(w).is_set, best(w).same(best(v)))
best(i)  # error: arg-type
best(w, i)  # error: call-arg
friend(w, i).to(v)
friend(w, v)  # error: arg-type
all_of(best(w) == w)  # error: arg-type
best(w).to(i)
best(w).to(w)  # error: arg-type
best(w).to(None)  # error: arg-type
best(w).same(friend(w, i))  # error: arg-type
best(w).among(i, j)
best(w).before(w)  # error: arg-type
Row("x", do=[best(w).to(i), friend(w, i).clear()], when=best(w).unset)
Row("w", when=[best(w)])  # error: list-item
worker.function("most", Item, edges={})  # error: type-var

# Rows: formulas where formulas stand, updates where updates do.
Row("a", on=report(w, i), when=[has(w, i), ~has(w, j)], do=[has(w, i).to(False)])
Row("b", on=Call("go", i), when=forall(j, has(w, j)) & exists(j, has(w, j)), send=[report(w, i)])
Row("c", send=[each(i, report(w, i), where=near(w, w))])
Row("d", on=stop)  # error: arg-type
Row("e", when=phase(w) is Phase.IDLE)  # error: comparison-overlap, arg-type
Row("f", do=[has(w, i)])  # error: list-item
Row("g", send=[stop])  # error: list-item
Row("h", choose=(Item,))  # error: arg-type
Row("i", when=has(w, i), doo=[])  # error: call-arg
forall(j, phase)  # error: arg-type
Table(worker, state=has)  # error: arg-type
Message("tell", Worker, sender=worker, receiver=boss, urgent=True)  # error: call-arg
'''


def expected() -> list[tuple[int, str]]:
    """The line and code of each error that the snippet announces."""
    return [
        (number, code)
        for number, line in enumerate(SNIPPET.splitlines(), start=1)
        if "# error: " in line
        for code in line.partition("# error: ")[2].split(", ")
    ]


def test_mypy_refuses_exactly_the_marked_lines(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(snippet)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    errors = re.finditer(r"snippet\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    reported = [(int(error[1]), error[2]) for error in errors]
    assert reported == expected(), done.stdout
