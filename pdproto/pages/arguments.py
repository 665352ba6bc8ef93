"""The arguments of data paths, checked at the call."""

from typing import Any, Final

from pdproto.runtime import checked

THREADS_MAX: Final = 1 << 10
TOKENS_MAX: Final = 1 << 31


def check(
    engine: Any, call: str, device: object, page_tokens: object, threads: object
) -> tuple[int | None, int]:
    """call: of the contract of engines that these pages need. Returns `page_tokens` and `threads`.

    Raises TypeError or ValueError, naming the argument.
    """
    if not callable(getattr(engine, call, None)):
        end = "source" if call == "post" else "sink"
        raise TypeError(f"engine {checked.shown(engine)}: want the {end} of an engine, such as "
                        f"open_{end}(\"tcp\")")
    if device is not None and not isinstance(getattr(device, "name", None), str):
        raise TypeError(f"device {checked.shown(device)}: want a device of pdproto.pages, or None")
    return (checked.whole_or_none("page_tokens", page_tokens, 1, TOKENS_MAX),
            checked.whole("threads", threads, 1, THREADS_MAX))
