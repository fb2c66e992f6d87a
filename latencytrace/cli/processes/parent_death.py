"""Ends a child process with its parent, however the parent dies."""

import ctypes
import signal
import sys
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>


def ending_with_parent() -> Callable[[], None]:
    """What a child calls before its program starts, to get SIGTERM once its parent is gone.

    Not even SIGKILL of the parent leaves the child behind. Linux alone knows how;
    elsewhere nothing is called.
    """
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl  # found before the fork: between it and exec, little is safe

    def ask_for_signal() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)

    return ask_for_signal
