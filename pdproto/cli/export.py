"""Write a system as documentation, or in the language of another tool.

--markdown: a page with states by triggers, every row in words, Mermaid diagrams, properties. It is
made from the tables alone: commit it, and let your tests compare it. If the system is an edit of
another system NAME, the page has only the differences, and links to NAME.md.

--tla: the tables as a TLA+ module, with a .cfg file beside it for safety, and one for each
assumption of fairness. The model has the same states as ours, so TLC's `distinct states` must equal
the states that `pdproto check` finds without reductions; `pdproto check --engine tlc` asks TLC.

--dot: the graph of all states, for Graphviz.
"""

import argparse
import re
from itertools import islice
from pathlib import Path
from typing import Final

from pdproto.check.difference import base_of
from pdproto.check.opinions.tla import tla
from pdproto.check.opinions.tla_context import SPECIFICATIONS
from pdproto.check.rigid import interpretations
from pdproto.check.stepping.dot import dot
from pdproto.check.stepping.walk import Walker
from pdproto.check.stepping.ways import neighbourhood
from pdproto.check.tables import document
from pdproto.check.variant_page import variant_document
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_sizes,
    add_system,
    configuration,
    remove,
    whole_number,
    write,
)
from pdproto.cli.systems import BUILT_IN, load, load_with_module
from pdproto.ground.grounding import Ground
from pdproto.ground.starts import why_no_start
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.system import Configuration, System

DOT_STATES: Final = 500


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto export`."""
    add_system(parser)
    languages = parser.add_mutually_exclusive_group(required=True)
    languages.add_argument("--markdown", action="store_true", help="a page about the system")
    languages.add_argument("--tla", action="store_true", help="TLA+, for TLC and its provers")
    languages.add_argument("--dot", action="store_true",
                           help="the states and transitions, for Graphviz")
    parser.add_argument("--full", action="store_true",
                        help="with --markdown: the whole system, also if it is an edit of another")
    add_sizes(parser)
    parser.add_argument(
        "--max-states", metavar="N", type=whole_number, default=DOT_STATES,
        help=f"the most states of a graph (default: {DOT_STATES})",
    )
    parser.add_argument(
        "--output", metavar="FILE|-", default=STANDARD_OUTPUT,
        help="where to write it (default: standard output); a module of TLA+ has the name of its "
        "file, as in Lock.tla",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export one system; returns the exit status."""
    if arguments.markdown:
        write(page(arguments.system, full=arguments.full), arguments.output)
        return 0
    system = load(arguments.system)
    chosen = configuration(system, arguments)
    if arguments.dot:
        write(_states(system, chosen, arguments.max_states), arguments.output)
    else:
        _write_tla(ground(system, chosen), arguments.output)
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


def _states(system: System, chosen: Configuration, most: int) -> str:
    """The states as a graph. Raises UsageError if there are more, or several topologies."""
    walker = Walker(system, chosen, ground(system, chosen).given)
    if len(walker.form.initial) > 1:
        raise UsageError(f"{system.name} has {len(walker.form.initial):,} initial states at these "
                         "sizes: --dot draws the states from one; see them with `pdproto explore`")
    found = neighbourhood(walker, walker.initial, most)
    if not found.complete:
        raise UsageError(f"{system.name} has over {most:,} states at these sizes: a graph of them "
                         f"is no picture; give smaller sizes, or --max-states")
    return dot(walker, found)


def _write_tla(form: Ground, output: str) -> None:
    """The module, and its configurations: beside it, or behind its end on standard output."""
    if output == STANDARD_OUTPUT:
        model = tla(form, re.sub(r"\W", "_", form.system.name, flags=re.ASCII))
        write("".join([model.text, *model.configurations.values()]), output)
        return
    path = Path(output)
    if path.suffix != ".tla" or not path.stem.isidentifier():
        raise UsageError(f"--output {output}: a module of TLA+ has the name of its file, which is "
                         "an identifier with .tla, as in Lock.tla")
    for earlier in _configurations(path):
        remove(earlier)
    model = tla(form, path.stem)
    write(model.text, output)
    for specification, text in model.configurations.items():
        write(text, str(_configuration(path, specification)))


def _configurations(path: Path) -> list[Path]:
    """The files beside a module that this or an earlier system may have."""
    return [_configuration(path, specification) for specification in SPECIFICATIONS.values()]


def _configuration(path: Path, specification: str) -> Path:
    which = "" if specification == SPECIFICATIONS[None] else f"_{specification}"
    return path.with_name(f"{path.stem}{which}.cfg")


def ground(system: System, chosen: Configuration) -> Ground:
    """The system's ground form. Raises UsageError if there is more than one topology, and SpecError
    if there is no initial state.
    """
    given = list(islice(interpretations(system, chosen.sizes, chosen), 2))
    if len(given) > 1:
        raise UsageError(
            f"{system.name}: {list(system.rigids)} have several interpretations, and a model can "
            f"have only one: choose it with given= in a configuration of the system"
        )
    form = Ground(system, chosen.sizes, chosen.faults, given[0])
    if problem := why_no_start(form):
        raise SpecError(system.place, problem)
    return form
