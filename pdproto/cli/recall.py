"""The option --no-cache of verbs that explore."""

import argparse

from pdproto.check.cache import NO_CACHE, Cache
from pdproto.check.user_cache import RESULTS, user_cache


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Add --no-cache, which `cache` reads."""
    parser.add_argument(
        "--no-cache", action="store_true",
        help="neither read nor write results of earlier runs, in ~/.cache/pdproto",
    )  # fmt: skip


def cache(arguments: argparse.Namespace) -> Cache:
    """The cache in which checks look for an earlier result."""
    return NO_CACHE if arguments.no_cache else Cache(user_cache(RESULTS))
