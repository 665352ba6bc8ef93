"""Find errors in a spec without exploring it: unanswered events, ambiguous and unused rows.

Exit status: 0 no error, 1 at least one, 2 the spec cannot be read. Warnings and notes do not count.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from pdproto.check.lint import ELEMENTS, Remark, Severity, lint, small
from pdproto.check.report import github
from pdproto.check.rigid import TopologyError
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_element_counts,
    add_lemmas,
    add_system,
    configuration,
    standard_output,
    write,
)
from pdproto.cli.reports import GITHUB, add_format
from pdproto.cli.systems import load_with_module, with_proofs
from pdproto.ground.layout import at_sizes
from pdproto.spec.language.properties import Always
from pdproto.spec.language.symbols import Sizes
from pdproto.spec.language.system import DEFAULT, Configuration, System

ELEMENTS_MAX: Final = 4  # of each sort: rules examine every choice of elements for every row


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto lint`."""
    add_system(parser)
    parser.add_argument(
        "--elements",
        metavar="N",
        type=int,
        choices=range(1, ELEMENTS_MAX + 1),
        default=ELEMENTS,
        help=f"examine N elements of each sort, or fewer where all configurations have fewer "
        f"(default: {ELEMENTS})",
    )
    add_lemmas(parser)
    add_element_counts(parser, configuration=None)
    parser.add_argument("--json", metavar="FILE|-", help="write the remarks as JSON")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Lint one system; returns the exit status."""
    system, home = load_with_module(arguments.system)
    chosen = _configuration(system, arguments)
    remarks = lint(system, chosen)
    lemmas: tuple[Always, ...] = ()
    # Lemmas can only remove errors, so without an error they are not needed.
    if arguments.lemmas is not None or _has_errors(remarks):
        lemmas = with_proofs(arguments.system, system, home, arguments.lemmas).lemmas
    if lemmas:
        # `pdproto prove` proves the lemmas together with these properties.
        always = (claim for claim in system.properties if isinstance(claim, Always))
        remarks = lint(system, chosen, (*lemmas, *always))
    if arguments.json != STANDARD_OUTPUT:
        with standard_output() as stream:
            stream.writelines(f"{remark}\n" for remark in remarks)
            stream.write(f"{system.name}: {_summary(remarks)}")
            if max(chosen.sizes.values(), default=0) > arguments.elements:
                stream.write(f", at {at_sizes(chosen.sizes)}")
            if lemmas:
                hold = "lemma holds" if len(lemmas) == 1 else "lemmas hold"
                stream.write(f", where {len(lemmas)} {hold}, which `pdproto prove` must show")
            stream.write("\n")
            if arguments.format == GITHUB:
                stream.writelines(f"{line}\n" for line in github.of_lint(remarks))
    if arguments.json:
        result = _as_json(system, chosen.sizes, remarks)
        result["lemmas"] = [lemma.name for lemma in lemmas]
        write(json.dumps(result, indent=2), arguments.json)
    return int(_has_errors(remarks))


def _has_errors(remarks: Sequence[Remark]) -> bool:
    return any(remark.severity is Severity.ERROR for remark in remarks)


def _configuration(system: System, arguments: argparse.Namespace) -> Configuration:
    """The sizes to examine: those of the options, or else small ones."""
    if arguments.size or arguments.configuration is not None:
        arguments.configuration = arguments.configuration or DEFAULT
        arguments.faults = []
        return configuration(system, arguments)
    try:
        return small(system, arguments.elements)
    except TopologyError as error:
        advice = "give sizes that fit, with --size or --configuration"
        raise UsageError(f"{error}; {advice}") from error


def _summary(remarks: Sequence[Remark]) -> str:
    """`2 errors, 1 warning`, or `nothing to remark`."""
    counts = Counter(remark.severity for remark in remarks)
    parts = [f"{n} {s}{'' if n == 1 else 's'}" for s in Severity if (n := counts[s])]
    return ", ".join(parts) or "nothing to remark"


def _as_json(system: System, sizes: Sizes, remarks: Sequence[Remark]) -> dict[str, Any]:
    return {
        "system": system.name,
        "sizes": {sort.__name__: size for sort, size in sizes.items()},
        "remarks": [asdict(remark) for remark in remarks],
    }
