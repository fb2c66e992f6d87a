"""SIGHUP: asks a service that runs without a terminal to look at its files again."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_HANGUP: Final = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def on_hangup(call: Callable[[], None]) -> Iterator[None]:
    """Call something at each SIGHUP while the block runs.

    At a terminal the signal ends the service, as it does when the terminal is closed; where it
    is ignored, as under `nohup`, it still is.
    """
    is_main = threading.current_thread() is threading.main_thread()
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if _HANGUP is None or not is_main or at_terminal:
        yield
        return
    before = signal.getsignal(_HANGUP)
    if before == signal.SIG_IGN:
        yield
        return
    signal.signal(_HANGUP, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(_HANGUP, before)
