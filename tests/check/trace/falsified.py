"""A real trace in memory, to be falsified line by line."""

from copy import deepcopy
from random import Random
from typing import Any, TypeAlias

from tests.check.trace.alterations import golden

Line: TypeAlias = dict[str, Any]
Files: TypeAlias = dict[str, list[Line]]

DECODE, FIRST, SECOND = "decode-0", "prefill-0-0-0", "prefill-1-0-0"


class Run:
    """The lines of all files, to be falsified. Lines are numbered anew when it is done."""

    def __init__(self) -> None:
        self.files: Files = {str(lines[0]["node"]): [dict(line) for line in lines]
                             for lines in deepcopy(golden())}
        self.numbers = True

    def life(self, number: int) -> list[int]:
        """The name of a hand-over."""
        lives = [line["with"]["h"] for line in self.files[DECODE] if "with" in line]
        return next(list(life) for life in lives if life[0] == number)

    def end(self, node: str, life: int) -> int:
        """The number of its endpoint at that node."""
        wanted = self.life(life)
        return next(int(line["end"]) for line in self.files[node]
                    if line.get("with", {}).get("h") == wanted)

    def at(self, node: str, life: int, what: str, nth: int = 0) -> int:
        """The place of a line: of this row, or about this variable of a device."""
        end = self.end(node, life)
        places = [place for place, line in enumerate(self.files[node]) if line["end"] == end and (
            line.get("row") == what or any(w[0] == what for w in line.get("device", ())))]
        return places[nth]

    def line(self, node: str, life: int, what: str, nth: int = 0) -> Line:
        return self.files[node][self.at(node, life, what, nth)]

    def drop(self, node: str, life: int, what: str, nth: int = 0) -> Line:
        return self.files[node].pop(self.at(node, life, what, nth))

    def insert(self, node: str, place: int, line: Line) -> None:
        self.files[node].insert(place, line)

    def device(self, node: str, life: int, *written: tuple[str, list[Any], str]) -> Line:
        """A line of a device about that endpoint. Its own elements are put before the others."""
        machine = "sink" if node == DECODE else "source"
        values = [[name, [node, self.life(life), *of], value] for name, of, value in written]
        return {"node": node, "machine": machine, "end": self.end(node, life), "device": values}

    def content(self, life: int, source: str = FIRST) -> Line:
        return self.device(DECODE, life, ("content", [0, source, 0], "true"))

    def written(self, node: str, life: int, chunk: int, value: str) -> Line:
        return self.device(node, life, ("write", [DECODE, chunk], value))

    def heard(self, node: str, life: int, message: str, other: str) -> Line:
        """A line that hears a message of the other node."""
        machine = "sink" if node == DECODE else "source"
        return {"node": node, "machine": machine, "end": self.end(node, life), "heard": message,
                "of": [other, self.life(life), node]}

    def numbered(self) -> Files:
        if self.numbers:
            for lines in self.files.values():
                for number, line in enumerate(lines, start=1):
                    line["n"] = number
        return self.files


def falsified_at_random(random: Random) -> Run:
    """One line is dropped, doubled, moved, swapped with another, or that of a device is forged."""
    run = Run()
    lines = run.files[random.choice(sorted(run.files))]
    place = random.randrange(len(lines))
    line = lines[place]
    match random.choice(("drop", "double", "move", "swap", "forge", "life")):
        case "drop":
            lines.pop(place)
        case "double":
            lines.insert(random.randint(place + 1, len(lines)), deepcopy(line))
        case "move":
            lines.insert(random.randrange(len(lines)), lines.pop(place))
        case "swap":
            other = random.randrange(len(lines))
            lines[place], lines[other] = lines[other], line
        case "forge":
            told = deepcopy(random.choice([one for one in lines if "device" in one]))
            lines.insert(random.randint(lines.index(told) + 1, len(lines)), told)
        case "life":
            told = random.choice([one for one in lines if "device" in one])
            node, life = told["node"], random.randrange(6)
            forged = deepcopy(told)
            forged["end"] = run.end(node, life)
            for _, elements, _ in forged["device"]:
                elements[1] = run.life(life)
            lines.insert(random.randrange(len(lines)), forged)
    return run
