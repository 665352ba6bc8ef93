"""Try defects: explore the system of each up to the first violation of the defect's property."""

import os
from collections.abc import Iterator, Sequence

from pdproto.check.cache import Cache
from pdproto.check.checking import CheckSettings
from pdproto.check.defects import Defect, DefectTrials, Trial
from pdproto.check.explore import Monitor


def try_all(
    defects: Sequence[Defect], kept: Cache, monitor: Monitor
) -> DefectTrials:
    """Try each defect, with all cores. monitor: told of the progress of each search."""
    decided: list[Trial] = []
    try:
        for trial in _tried(defects, kept, monitor):
            if not trial.is_decided:
                raise KeyboardInterrupt
            decided.append(trial)
    except KeyboardInterrupt:
        return DefectTrials(tuple(decided), interrupted=True)
    return DefectTrials(tuple(decided), interrupted=False)


def _tried(
    defects: Sequence[Defect], kept: Cache, monitor: Monitor
) -> Iterator[Trial]:
    for defect in defects:
        settings = CheckSettings(
            properties=(defect.violates,), workers=os.cpu_count() or 1, monitor=monitor
        )
        yield Trial(defect, kept.check(defect.system, defect.configuration, settings))
