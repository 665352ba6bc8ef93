"""The words of a command line, before any of them is read.

Verbs take texts that name files, hosts and systems. A text that can name none of them is refused
here, once for all verbs: the code behind a verb would raise an error that looks like a bug.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

WORD_MAX: Final = 4_096  # characters, as Linux takes them in a path
SHOWN_MAX: Final = 40  # of them in an error
LEFT_OUT: Final = re.compile(r"(--[\w-]+)=(?:--)?")  # argparse makes a list of `--option=--`


def complaint(words: Sequence[str]) -> str | None:
    """What is wrong with the first word that names nothing; None if each may name something."""
    for before, word in pairwise(("", *words)):
        left_out = LEFT_OUT.fullmatch(word)
        if left_out is not None:
            return f"{left_out[1]}: want a value"
        if not word:
            return f"{before}: want a value" if before.startswith("--") else "an argument is empty"
        wanted = _wanted(word)
        if wanted is not None:
            return f"argument {word[:SHOWN_MAX]!r}: want {wanted}"
    return None


def _wanted(word: str) -> str | None:
    if len(word) > WORD_MAX:
        return f"at most {WORD_MAX:,} characters"
    if "\0" in word:
        return "text without a zero byte"
    try:
        word.encode()
    except UnicodeEncodeError:
        return "text in UTF-8"
    return None
