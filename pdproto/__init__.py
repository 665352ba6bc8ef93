"""pdproto: protocols as transition tables, explored exhaustively and run from the same tables."""

from typing import Final

__version__: Final = "0.1.0"
