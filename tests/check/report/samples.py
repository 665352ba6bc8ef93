"""Results as a check would return them, written by hand: a picture test needs no explorer."""

from tests.check.report.commit_samples import clean, incomplete, safety
from tests.check.report.hard_samples import HOSTILE, crowd, hostile, long_names
from tests.check.report.lock_samples import at_once, lasso, stuck
from tests.check.report.made import change, result, step

__all__ = [
    "HOSTILE", "SAMPLES", "at_once", "change", "clean", "crowd", "hostile", "incomplete", "lasso",
    "long_names", "result", "safety", "step", "stuck",
]

SAMPLES = {
    "safety": safety,
    "lasso": lasso,
    "stuck": stuck,
    "incomplete": incomplete,
    "clean": clean,
    "crowd": crowd,
    "hostile": hostile,
    "long_names": long_names,
    "at_once": at_once,
}
