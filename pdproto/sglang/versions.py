"""The releases of SGLang with which this backend is tested."""

from pathlib import Path
from typing import Final

from pdproto.net.releases import Releases

TESTED: Final = Releases("SGLang", ("0.5.23",), Path(__file__).with_name("interface.txt"))
