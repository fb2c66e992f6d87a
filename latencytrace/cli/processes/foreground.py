"""Runs a program in our place: passes signals on, returns its exit code, ends it when we end."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>


def ending_with_parent() -> Callable[[], None]:
    """Return a function for the child to call before `exec`, so that it gets SIGTERM when we end.

    This holds even if we are killed by SIGKILL. On other systems than Linux the function does
    nothing.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes  # slow to import, and seldom needed

    prctl = ctypes.CDLL(None).prctl  # looked up now: little is safe between fork and exec

    def ask_for_signal() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)

    return ask_for_signal


PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
FROM_KERNEL = 0x80  # Linux's SI_KERNEL: a terminal sent it, to every process of its foreground


def run_in_foreground(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program until it ends.

    Signals sent to us are passed on. Those from the terminal are not: the program gets them
    itself, and many programs end at once at a second Ctrl-C.
    If we are killed, the program gets SIGTERM.

    Returns:
        Its exit code; 128 and the signal's number if one killed it, as shells say.
    """
    waited_for = {*PASSED_ON, signal.SIGCHLD}
    end_with_us = ending_with_parent()

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        end_with_us()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user typed
            command,
            env=environment,
            preexec_fn=in_child,  # noqa: PLW1509 - one thread only
        )
        while process.poll() is None:
            received = signal.sigwaitinfo(waited_for)
            if received.si_signo != signal.SIGCHLD and received.si_code != FROM_KERNEL:
                process.send_signal(received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
