"""The option of verbs that explore: look for the result of an earlier run first, or do not."""

import argparse

from pdproto.check.cache import NO_CACHE, Cache
from pdproto.check.user_cache import RESULTS, user_cache


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """--no-cache, for `cache`."""
    parser.add_argument(
        "--no-cache", action="store_true",
        help="explore what has been explored before, and keep nothing (see `pdproto cache`)",
    )  # fmt: skip


def cache(arguments: argparse.Namespace) -> Cache:
    """Where checks look for their results first."""
    return NO_CACHE if arguments.no_cache else Cache(user_cache(RESULTS))
