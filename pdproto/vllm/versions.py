"""The releases of vLLM with which this connector is tested."""

from pathlib import Path
from typing import Final

from pdproto.net.releases import Releases

TESTED: Final = Releases("vLLM", ("0.31.0", "0.32.0", "0.33.0"),
                       Path(__file__).with_name("interface.txt"))
