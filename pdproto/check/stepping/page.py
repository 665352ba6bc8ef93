"""The page of `pdproto explore`: its shell. explore.js fills it with the answers of the server."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from pdproto.check.report.html import resource as of_report
from pdproto.check.report.markup import Markup, breakable, element

KEYS: Final = (
    ("1 … 9", "fire that row"),
    ("↓ ↑ j k", "go through the rows that can fire; Enter fires"),
    ("u ⌫", "undo the last step, as the browser's Back does"),
    ("Home", "back to the initial state"),
    ("/", "the shortest way to a state in which ..."),
    ("m", "the map of the states around"),
    ("d", "rows that cannot fire, and why"),
    ("v", "all values, or those that are not initial"),
    ("t", "the path as a test"),
    ("c", "copy the link to this state"),
    ("?", "show or hide this help"),
)
BUTTONS: Final = (  # id, text, key
    ("undo", "Undo", "u"), ("find", "Find a way", "/"), ("map", "Map", "m"), ("test", "Test", "t"),
    ("link", "Copy link", "c"), ("keys", "Keys", "?"),
)
POLICY: Final = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def shell(name: str, about: str, facts: Sequence[tuple[str, str]], example: str) -> str:
    """The page. facts: sizes, faults and topology, as label and value. example: a formula."""
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        element("title", f"explore {name}"),
        Markup('<link rel="stylesheet" href="/style.css">'),
        Markup('<script src="/script.js" defer></script>'),
    )
    body = element(
        "body",
        _masthead(name, about, facts),
        element(
            "div",
            element("section", id="choices", aria_label="What can happen here"),
            element("main", element("div", id="picture")),
            element("aside", id="inspector", aria_label="The state"),
            class_="workspace",
        ),
        _find(example),
        _dialog("map-dialog", "The states around this one", element("div", id="map-body")),
        _dialog("test-dialog", "This path as a test", element("pre", id="test-body", tabindex="0"),
                element("button", "Copy", type="button", id="test-copy")),
        _help(),
        element("p", id="toast", role="status", aria_live="polite"),
        element("noscript", element("p", "This page needs its script.", class_="empty")),
        class_="explore",
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en', class_='js')}\n"


@cache
def style() -> str:
    """The style sheet: that of the page of a result, and what is added here."""
    return of_report("page.css") + _own("explore.css")


@cache
def script() -> str:
    """The script: the parts that the page of a result shares, and those of this page."""
    return of_report("steps.js") + _own("map.js") + _own("explore.js")


def _own(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _masthead(name: str, about: str, facts: Sequence[tuple[str, str]]) -> Markup:
    return element(
        "header",
        element(
            "div",
            element("h1", breakable(name)),
            element("p", about, class_="description"),
            class_="title",
        ),
        element(
            "dl",
            *(element("div", element("dt", label), element("dd", value, title=value))
              for label, value in facts),
            class_="figures",
        ),
        element(
            "nav",
            *(
                element("button", text, element("kbd", key), type="button", id=identity)
                for identity, text, key in BUTTONS
            ),
            class_="toolbar",
            aria_label="Tools",
        ),
        class_="masthead",
    )


def _find(example: str) -> Markup:
    return _dialog(
        "find-dialog", "The shortest way to a state in which ...",
        element(
            "form",
            element("input", id="formula", type="text", placeholder=example, spellcheck="false",
                    autocomplete="off", aria_label="A formula"),
            element("button", "Find", type="submit"),
            method="dialog", id="find-form",
        ),
        element("p", id="find-error", class_="error", role="alert"),
        element("p", "In the words of the language or of this page, as in ",
                element("code", example),
                ". A name without a quantifier stands for some element.", class_="muted"),
    )  # fmt: skip


def _help() -> Markup:
    rows = [
        element("div", element("dt", *(element("kbd", key) for key in keys.split())),
                element("dd", meaning))
        for keys, meaning in KEYS
    ]
    return _dialog("help", "Keys", element("dl", *rows))


def _dialog(identity: str, title: str, *children: Markup) -> Markup:
    return element(
        "dialog",
        element("h2", title, id=f"{identity}-name"),
        *children,
        element("button", "Close", type="button", class_="close"),
        id=identity,
        aria_labelledby=f"{identity}-name",
    )
