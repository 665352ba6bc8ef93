"""docs/reference/host-assumptions.md: which calls are assumed? Written by `reference_pages`."""

from typing import Final

from pdproto.spec.handoff.host_assumptions import ASSUMPTIONS, Assumption, By

INTRODUCTION: Final = """
A row of the tables on a call fires when a serving engine, a node or the router calls. A promise
that needs the call assumes it. Each assumption is here with the rows that rest on it, the function
whose source makes it true, and the tests that show it, under SGLang and vLLM with their own
classes.

The list is `spec/handoff/host_assumptions.py`. A test demands that it has each fair row on a call,
and each row on a call of an engine's scheduler; another, that the functions are in the source that
is installed.
"""


def page(generated: str) -> str:
    """The page, caller by caller."""
    parts = "".join(
        f"\n## {by.value.replace('the ', 'The ')}\n\n"
        + "".join(_told(one) for one in ASSUMPTIONS if one.by is by) for by in By)
    return f"# Assumptions about callers\n\n{generated}{INTRODUCTION}{parts}"


def _told(one: Assumption) -> str:
    lines = [("rows", one.rows), ("made true by", one.places), ("shown by", one.tests)]
    told = "".join(f"  * {name}: {', '.join(f'`{each}`' for each in of)}\n"
                   for name, of in lines if of)
    broken = f"  * where it is false: {one.broken}\n" if one.broken else ""
    return f"* **{one.says}**\n{told}{broken}"
