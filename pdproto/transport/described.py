"""A server, as its command line describes it before a model is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdproto.transport.settings import Settings


@dataclass(frozen=True, slots=True)
class Described:
    """A server of SGLang or vLLM.

    engine, release: which one. settings: of its nodes. is_prefill: None if it has both roles.
    layout: what both servers must have in common, by name. flags: the server's flags that set it,
    by the same name. refused: why the server will not start; empty if it will.
    """

    engine: str
    release: str
    settings: Settings
    is_prefill: bool | None
    layout: Mapping[str, str]
    flags: Mapping[str, str]
    refused: str = ""
