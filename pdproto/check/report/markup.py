"""HTML built from elements, so that text is escaped unless it is markup already."""

import html
import re

from pdproto.check.report.narration import visible


class Markup(str):
    """Text that is already HTML: escaped by this module, or a constant of the page."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return markup unchanged, and any other text as HTML that shows the text on one line."""
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text)))


def element(name: str, *children: str, **attributes: str | bool) -> Markup:
    """Return `<name attributes>children</name>`.

    An underscore in an attribute's name becomes a hyphen; one at its end is dropped (`class_`).
    True makes an attribute without a value; False and the empty string leave it out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for key, value in attributes.items()
        if value is not False and value != ""
    )
    return Markup(f"<{name}{written}>{''.join(map(escaped, children))}</{name}>")


def breakable(text: str) -> Markup:
    """Return a name or a path that may be broken after each slash and underscore."""
    first, *rest = re.split(r"(?<=[/_])", text)
    return Markup("<wbr>".join([escaped(first), *map(escaped, rest)]))
