"""The reports of a decode rank's data path, each for the part that takes its kind."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pdproto.node.core import Core
from pdproto.node.data_path import SinkDataPath
from pdproto.node.part import Part, Turn


class Reports:
    """takers: by kind of report."""

    def __init__(
        self, core: Core, data_path: SinkDataPath, takers: Mapping[type, Callable[[Any], None]]
    ) -> None:
        self._core: Final = core
        self._data_path: Final = data_path
        self._takers: Final = takers
        self.part: Final = Part("reports", turns={Turn.REPORTS: self._collect})

    def _collect(self, _now: float) -> None:
        for report in self._data_path.reports():
            self._takers[type(report)](report)
            if self._core.is_late():
                return
