"""Reads what was rendered, strictly: HTML whose tags must nest, and well-formed XML."""

from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

VOID = {"meta", "wbr"}


def read_xml(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode())  # noqa: S314  # the renderer's own text


class PageReader(HTMLParser):
    """Collects elements and shown text; raises ValueError at a tag that does not nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.raw: dict[str, str] = {}
        self.feed(page)
        self.close()
        if self.open:
            raise ValueError(f"never closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(dict(attrs)) != len(attrs):
            raise ValueError(f"an attribute twice: {attrs}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if "svg" not in self.open:
            raise ValueError(f"<{tag}/> closes itself outside of an SVG")
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"script", "style"}:
            name = f"{self.open[-1]} {self.elements[-1][1].get('type', '')}".strip()
            self.raw[name] = self.raw.get(name, "") + data
        else:
            self.shown.append(data)

    def handle_comment(self, data: str) -> None:
        raise ValueError(f"a comment: {data}")

    @property
    def text(self) -> str:
        return "".join(self.shown)

    def attributes(self, name: str) -> list[Any]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]
