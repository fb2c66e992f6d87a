"""Ends a child process with its parent, however the parent dies."""

import signal
import sys
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>


def ending_with_parent() -> Callable[[], None]:
    """Return what a child calls before its program starts, to get SIGTERM once we are gone.

    Not even SIGKILL of the parent leaves the child behind. Linux alone knows how;
    elsewhere nothing is called.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # noqa: PLC0415 - slow to import, and seldom needed

    prctl = ctypes.CDLL(None).prctl  # found before the fork: between it and exec, little is safe

    def ask_for_signal() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)

    return ask_for_signal
