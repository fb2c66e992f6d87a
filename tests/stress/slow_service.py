"""The command line, with a store that takes longer: a slow disk, or a busy one.

    python tests/stress/slow_service.py --slow-ms 60 serve --data FOLDER …

Everything else is the real thing: the server, the engine, its folder.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from latencytrace.cli import main
from latencytrace.plugins import STORES, load_plugin

SLOWED = ("insert", "keep", "write")


def slowed(method: Callable[..., Any], delay_s: float) -> Callable[..., Any]:
    """Delay a method before it does what it does."""

    @wraps(method)
    def after_a_while(*arguments: object, **named: object) -> object:
        time.sleep(delay_s)
        return method(*arguments, **named)

    return after_a_while


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow-ms", type=float, required=True)
    told, rest = parser.parse_known_args()
    store = load_plugin(STORES, "chdb")
    if told.slow_ms:
        for name in SLOWED:
            setattr(store, name, slowed(getattr(store, name), told.slow_ms / 1e3))
    sys.argv = ["latencytrace", *rest]
    main()
