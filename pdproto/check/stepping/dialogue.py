"""The dialogue of `pdproto explore --text`: a line of the user goes in, lines of text come out."""

from collections.abc import Iterator, Sequence
from typing import Final

from pdproto.check.narrative import channel_name
from pdproto.check.report.narration import addressed, counted
from pdproto.check.runs import Transition
from pdproto.check.stepping.as_test import SystemImport, written
from pdproto.check.stepping.formulas import FormulaError, example, wanted
from pdproto.check.stepping.standing import Stands, standings
from pdproto.check.stepping.walk import Choice, Disabled, Path, PathError, Walker
from pdproto.check.stepping.ways import shortest
from pdproto.ground.channels import EMPTY
from pdproto.ground.layout import cell_name

NEAREST: Final = 10  # disabled rows that `w` shows without a name
STALE: Final = "{} has been saved since: start `pdproto explore` again"
MARKS: Final = {Stands.VIOLATED: "✗", Stands.OWED: "…", Stands.UNSEEN: "○"}
COMMANDS: Final = (
    ("NUMBER, ROW", "fire that row, as in `2` or `ask(c0, r0)`"),
    ("u [N]", "undo the last step, or the last N"),
    ("w [ROW]", "why rows cannot fire: the nearest ones, or each instance of ROW"),
    ("p", "how each property stands, and why"),
    ("s", "the values that differ from the initial state, and the messages"),
    ("g FORMULA", "go the shortest way to a state in which the formula holds"),
    ("l", "the path so far"),
    ("t", "the path as a test for pytest"),
    ("q", "quit, as Ctrl-D does"),
)


class Dialogue:
    """A walk through a system by text. over: whether the user has quit."""

    def __init__(self, walker: Walker, system: SystemImport, path: Path) -> None:
        self.walker: Final = walker
        self.over = False
        self._system: Final = system
        self._moves: tuple[Transition, ...] = walker.follow(path)

    @property
    def state(self) -> int:
        """The present state."""
        return self.walker.after(self._moves)

    @property
    def path(self) -> Path:
        """The rows that have fired."""
        return tuple(self.walker.label(move.row) for move in self._moves)

    def opening(self) -> Iterator[str]:
        """The first lines."""
        yield "A number fires a row; ? lists the commands."
        yield from self._here()

    def answer(self, line: str) -> Iterator[str]:
        """The lines that answer one line of the user."""
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        try:
            yield from self._answered(word, rest, line.strip())
        except (PathError, FormulaError) as error:
            yield str(error)

    def _answered(self, word: str, rest: str, line: str) -> Iterator[str]:
        match word:
            case "":
                yield from self._choices()
            case "?" | "h" | "help":
                yield from (f"  {command:<12} {told}" for command, told in COMMANDS)
            case "q" | "quit" | "exit":
                self.over = True
            case "u" | "undo":
                yield from self._undone(rest)
            case "w" | "why":
                yield from self._why(rest)
            case "p":
                yield from self._properties()
            case "s":
                yield from self._values()
            case "g" | "go":
                yield from self._gone(rest)
            case "l":
                yield from (f"{number:>3}  {label}" for number, label in enumerate(self.path, 1))
                yield counted(len(self.path), "step")
            case "t":
                yield from written(self._system, self.walker, self._moves).splitlines()
            case _:
                yield from self._fired(line)

    def _fired(self, text: str) -> Iterator[str]:
        label = text
        if text.isascii() and text.isdecimal():
            choices = self._able()
            if not 1 <= int(text) <= len(choices):
                raise PathError(f"there is no row {text}: {counted(len(choices), 'row')} can fire")
            label = choices[int(text) - 1].label
        move = self.walker.move(self.state, label)
        self._moves = (*self._moves, move)
        yield from self._told(move)
        yield from self._here()

    def _told(self, move: Transition) -> Iterator[str]:
        step = self.walker.narrator.step(move)
        trigger = f"  {step.trigger}" if step.trigger else ""
        yield f"{len(self._moves):>3}  {self.walker.label(move.row)} at {step.lane}{trigger}"
        for change in step.changes:
            yield f"       {change.variable}: {change.before} → {change.after}"
        for verb, arrows in (("sends", step.sent), ("loses", step.lost)):
            yield from (f"       {verb} {addressed(arrow)}" for arrow in arrows)

    def _undone(self, text: str) -> Iterator[str]:
        count = int(text) if text.isascii() and text.isdecimal() else 1
        if not self._moves:
            raise PathError("this is the initial state: there is nothing to undo")
        self._moves = self._moves[: max(0, len(self._moves) - count)]
        yield from self._here()

    def _gone(self, text: str) -> Iterator[str]:
        if not text:
            raise FormulaError(f"a formula is missing, such as {example(self.walker.ground)}")
        way = shortest(self.walker, self.state, wanted(self.walker.ground, text))
        if way.path is None:
            searched = counted(way.states, "state")
            yield (f"there is no way from here: all {searched} that can be reached were searched"
                   if way.complete else f"no way was found within {searched}")
            return
        if not way.path:
            yield "it holds here"
            return
        for label in way.path:
            move = self.walker.move(self.state, label)
            self._moves = (*self._moves, move)
            yield from self._told(move)
        yield from self._here()

    def _here(self) -> Iterator[str]:
        for one in standings(self.walker, self._moves):
            if one.stands is Stands.VIOLATED:
                yield from (f"  ✗ {one.name}: {reason}" for reason in one.because)
        yield from self._choices()

    def _able(self) -> list[Choice]:
        return [choice for choice in self.walker.enabled(self.state) if choice.changes]

    def _choices(self) -> Iterator[str]:
        able = self._able()
        width = max((len(choice.label) for choice in able), default=0)
        for number, choice in enumerate(able, start=1):
            fault = f"  [fault: {choice.ground.layer}]" if choice.ground.layer else ""
            trigger = f"  {choice.trigger}" if choice.trigger else ""
            yield f"{number:>3}  {choice.label:<{width}}  {choice.lane}{trigger}{fault}"
        if not able:
            yield "nothing can change the state"
        if self.walker.is_stuck(self.state):
            final = self.walker.is_final(self.state)
            yield "a run may end here" if final else "deadlock: no run may end here"

    def _why(self, name: str) -> Iterator[str]:
        if not name:
            yield from map(_needs, self.walker.disabled(self.state)[:NEAREST])
            return
        for one in self.walker.instances(self.state, name):
            yield _needs(one) if isinstance(one, Disabled) else f"{one.label} can fire"

    def _properties(self) -> Iterator[str]:
        for one in standings(self.walker, self._moves):
            told = "" if one.stands is Stands.HOLDS else f"  {one.stands}"
            yield f"  {MARKS.get(one.stands, '✓')} {one.name}{told}"
            yield from (f"      {reason}" for reason in one.because)

    def _values(self) -> Iterator[str]:
        ground = self.walker.ground
        for symbol, at, (value, initial) in ground.layout.texts(self.state, self.walker.initial):
            if value != initial:
                yield f"  {cell_name(symbol, at)} = {value}"
        for cell in ground.layout.on_network(self.state):
            yield f"  {cell_name(*cell)} = true"
        for queue in ground.queues.every():
            content = ground.queues.text(self.state, queue)
            if content != EMPTY:
                yield f"  {' '.join(channel_name(queue))} = {content}"
        yield f"  all else as in the initial state, {counted(len(self._moves), 'step')} ago"


def _needs(row: Disabled) -> str:
    return f"{row.label} needs {'; '.join(map(str, row.failing))}"


def answers(dialogue: Dialogue, lines: Sequence[str]) -> list[str]:
    """The answers to several lines, up to the one that quits."""
    told: list[str] = []
    for line in lines:
        if not dialogue.over:
            told += dialogue.answer(line)
    return told
