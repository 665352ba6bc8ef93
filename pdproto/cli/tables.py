"""Write the documentation of a spec: states by triggers, every row in words, diagrams, properties.

It is Markdown with Mermaid diagrams, made from the tables alone: commit it, and let your tests
compare it. If the system is an edit of another system NAME, the page has only the differences, and
links to NAME.md.
"""

import argparse

from pdproto.check.difference import base_of
from pdproto.check.tables import document
from pdproto.check.variant_page import variant_document
from pdproto.cli.options import STANDARD_OUTPUT, add_system, write
from pdproto.cli.systems import BUILT_IN, load_with_module
from pdproto.spec.language.system import System


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto tables`."""
    add_system(parser)
    parser.add_argument(
        "--output", metavar="FILE|-", default=STANDARD_OUTPUT,
        help="where to write the page (default: standard output)"
    )
    parser.add_argument(
        "--full", action="store_true", help="the whole system, also if it is an edit of another"
    )


def run(arguments: argparse.Namespace) -> int:
    """Document one system; returns the exit status."""
    text = page(arguments.system, full=arguments.full)
    write(text, arguments.output)
    return 0


def page(name: str, *, full: bool = False) -> str:
    """The page of a system. full: the whole page of a variant, not only the differences."""
    system, module = load_with_module(name)
    public = {
        each.name
        for attribute, each in vars(module).items()
        if isinstance(each, System) and not attribute.startswith("_")
    }
    base = None if full else base_of(system, {*BUILT_IN, *public})
    return document(system) if base is None else variant_document(system, base)
