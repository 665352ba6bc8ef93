"""Words that the project has given up, each with the word to use instead.

`tests/test_tidy.py:test_no_retired_word_comes_back` looks for them. To retire a word: replace it
everywhere, add a line here, and take its row out of docs/reference/glossary.md.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Nowhere: in no name, no text and no document.
ANYWHERE: Final = {
    "adrift": "in doubt",
    "agenda": "event queue",
    "befall": "apply_fault",
    "bereave": "on_peer_lost",
    "enrol": "enroll",
    "hasten": "fire now",
    "hitherto": "so far",
    "lest": "so that not",
    "nought": "nothing",
    "odds": "a mismatch",
    "scout": "pre-exploration",
    "storyteller": "narrator",
    "thereby": "by this",
    "therein": "in it",
    "thereof": "of it",
    "unpaid": "unfulfilled",
    "upon": "on",
    "whereof": "of which",
    "whomever": "the name of the receiver",
}

# In no name, nor where a text quotes one in backticks. In prose they mean what they always mean.
IN_NAMES: Final = {
    "duties": "leads-to instances",
    "duty": "leads-to instance",
    "judge": "property checker",
    "landings": "buffers",
    "plane": "data path",
    "team": "worker pool",
}

WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
QUOTED: Final = re.compile(r"`([^`\n]+)`")
TEXTS: Final = (tokenize.STRING, tokenize.COMMENT)
# Most files have none: to read all as Python takes five times as long.
ANY: Final = re.compile("|".join((*ANYWHERE, *IN_NAMES)))


def retired(path: Path) -> Iterator[tuple[int, str]]:
    """Each retired word of a Python module or a document, with its line (1 is the first)."""
    text = path.read_text(encoding="utf-8")
    if ANY.search(text.lower()) is None:
        return
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            yield from ((number, word) for word in _in_text(line))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield from ((token.start[0], word) for word in _in_name(token.string))
        elif token.type in TEXTS:
            for offset, line in enumerate(token.string.splitlines()):
                yield from ((token.start[0] + offset, word) for word in _in_text(line))


def _words(text: str) -> Iterator[str]:
    return (word.lower() for word in WORD.findall(text))


def _in_name(name: str) -> Iterator[str]:
    return (word for word in _words(name) if word in ANYWHERE or word in IN_NAMES)


def _in_text(line: str) -> Iterator[str]:
    yield from (word for word in _words(line) if word in ANYWHERE)
    for quoted in QUOTED.findall(line):
        yield from (word for word in _words(quoted) if word in IN_NAMES)
