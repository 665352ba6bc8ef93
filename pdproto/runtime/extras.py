"""The packages that only running nodes need, and the error that names their extra.

`pip install pdproto` brings what checking and proving need; `pip install 'pdproto[runtime]'` brings
these too.
"""

from importlib.util import find_spec
from typing import Final

RUNTIME: Final = ("aiohttp", "cryptography", "prometheus_client", "zmq")


def not_installed(package: str, extra: str) -> str:
    """The line for a package that is missing."""
    return f"{package} is not installed: pip install 'pdproto[{extra}]'"


def require_runtime(*packages: str) -> None:
    """Raise ModuleNotFoundError, with the extra, if one of these packages is missing."""
    for package in packages or RUNTIME:
        if find_spec(package) is None:
            raise ModuleNotFoundError(not_installed(package, "runtime"), name=package)
