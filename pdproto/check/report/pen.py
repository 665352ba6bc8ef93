"""Text for a console: its width, its characters, and lines laid out in cells."""

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from pdproto.check.report.narration import visible


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of the picture; each is one cell wide."""

    lifeline: str
    fired: str
    solid: str
    dashed: str
    right: str
    left: str
    lost: str
    broken: str
    holds: str
    becomes: str
    loop_top: str
    loop_side: str
    loop_foot: str


UNICODE: Final = Glyphs("│", "●", "─", "┄", "▶", "◀", "✗", "✗", "✓", "→", "┌", "│", "└")
ASCII: Final = Glyphs("|", "*", "-", ".", ">", "<", "x", "x", "+", "->", ",", "|", "`")


WITHOUT_TERMINAL: Final = 10_000  # the width of a console for a file or a pipe
PICTURE: Final = 80  # cells of the lines and pictures there; tables are as wide as they need


class Pen:
    """The abilities of a console: its width, its characters, its encoding."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = PICTURE if console.width == WITHOUT_TERMINAL else console.width
        self.glyphs = ASCII if console.options.ascii_only else UNICODE

    def plain(self, text: str) -> str:
        """Return `text` as one line that the console's encoding can print."""
        encoding = self.console.encoding
        return visible(text).encode(encoding, "backslashreplace").decode(encoding)

    def text(self, *parts: str | tuple[str, str], style: str = "") -> Text:
        """Return the parts as one text; a part is a string, or a string and its style."""
        plain = [
            self.plain(part) if isinstance(part, str) else (self.plain(part[0]), part[1])
            for part in parts
        ]
        return Text.assemble(*plain, style=style)

    def wrap(self, text: Text, width: int) -> list[Text]:
        """Return `text` as lines of at most `width` cells; a word that is longer is broken."""
        lines = text.wrap(self.console, max(width, 1), overflow="fold")
        for line in lines:
            line.rstrip()
        return list(lines) or [text]


class TextLine:
    """Texts at columns, in front of a background of single-width characters."""

    def __init__(self, pieces: list[tuple[int, Text]] | None = None) -> None:
        self.pieces = pieces or []

    def put(self, column: int, text: Text) -> None:
        """Add a text at a column, from 0."""
        self.pieces.append((column, text))

    def over(self, background: Text) -> Text:
        """Return the pieces in order of their columns, the background showing between them."""
        line, cursor = Text(), 0
        for column, text in sorted(self.pieces, key=lambda piece: piece[0]):
            seen = background[cursor:column] if cursor < len(background) else Text()
            line += seen
            line += Text(" " * (column - cursor - len(seen)))
            line += text
            cursor = column + text.cell_len
        if cursor < len(background):
            line += background[cursor:]
        line.rstrip()
        return line
