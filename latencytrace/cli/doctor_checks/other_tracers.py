"""Commands that start a program with another tracer, and what becomes of ours there."""

from collections.abc import Sequence
from pathlib import Path

CONTRIB = "opentelemetry-instrument"
BESIDE = ("ddtrace-run", "newrelic-admin")  # which start what else is to be started, too
CONTRIB_AUTOSTART = "opentelemetry/instrumentation/auto_instrumentation"  # in PYTHONPATH


def other_tracer(command: Sequence[str], python_path: str) -> tuple[str, str] | None:
    """Say what another tracer does together with ours, and how to change that; None: nothing.

    Args:
        command: The program and its arguments.
        python_path: The variable PYTHONPATH.
    """
    names = [Path(word).name for word in command]
    if CONTRIB in names:
        rest = " ".join(command[names.index(CONTRIB) + 1 :])
        return (
            (
                f"{CONTRIB} takes our place when Python starts: it alone instruments the "
                "program, by its own settings, and no hook of ours times anything. Where the "
                "program calls latencytrace.instrument(), both do: its tracer provider makes all "
                "spans, and calls that both know are timed twice"
            ),
            f"latencytrace run -- {rest}",
        )
    if names and names[0] in BESIDE:
        return (
            f"{names[0]} traces the program, too: each call is timed twice, at its price",
            f"latencytrace run -- {' '.join(command[1:])}",
        )
    if CONTRIB_AUTOSTART in python_path:
        return (
            (
                f"PYTHONPATH starts {CONTRIB} in every program: calls that both know are timed "
                "twice, and the SDK's tracer provider makes the spans, ours included"
            ),
            "take the entry that ends in auto_instrumentation out of PYTHONPATH",
        )
    return None
