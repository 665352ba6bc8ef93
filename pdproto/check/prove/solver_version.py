"""The version of the solver, on which kept proofs depend."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def solver_version() -> str:
    """The version of the package z3-solver, by the name of its folder of metadata.

    `importlib.metadata` is asked only where that folder is not beside the package: it imports the
    parsers of e-mail and of archives, for which each `pdproto check` would wait.
    """
    spec = find_spec("z3")
    if spec is not None and spec.origin is not None:
        beside = Path(spec.origin).parent.parent
        found = [path.name for path in beside.glob("z3_solver-*.dist-info")]
        if len(found) == 1:
            return found[0].removeprefix("z3_solver-").removesuffix(".dist-info")
    from importlib.metadata import version  # noqa: PLC0415 - see above

    return version("z3-solver")
