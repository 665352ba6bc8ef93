"""The Markdown files of the project, and what can be read in them: links, anchors, commands."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#{1,6} +(.*?)#*$", re.MULTILINE)
OWN_ANCHOR: Final = re.compile(r'<a id="([^"]+)"></a>')
FENCED: Final = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
INDENTED: Final = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n)+")
CODE: Final = re.compile(r"`[^`]*`")
OTHER_SITE: Final = re.compile(r"^[a-z]+:")


@cache
def pages() -> tuple[Path, ...]:
    """Every Markdown file that is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    return tuple(ROOT / name for name in listed if (ROOT / name).is_file())


@cache
def read(path: Path) -> str:
    """The text of a page."""
    return path.read_text(encoding="utf-8")


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return INDENTED.sub("", FENCED.sub("", text))


def links(path: Path) -> Iterator[str]:
    """Where the page links to, other sites apart."""
    for target in LINK.findall(CODE.sub("", prose(read(path)))):
        if not OTHER_SITE.match(target):
            yield target


def anchors(path: Path) -> set[str]:
    """The anchors of a page: its own, and those of its headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    text = FENCED.sub("", read(path))
    found = set(OWN_ANCHOR.findall(text))
    for heading in HEADING.findall(text):
        words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        slug = words.replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken(path: Path) -> list[str]:
    """The links of a page that lead nowhere; of a folder the site has no page."""
    return [target for target in links(path) if not _leads_somewhere(path, target)]


def _leads_somewhere(path: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    goal = (path.parent / name).resolve() if name else path
    if not goal.is_file() or not goal.is_relative_to(ROOT):
        return False
    return not anchor or (goal.suffix == ".md" and anchor in anchors(goal))
