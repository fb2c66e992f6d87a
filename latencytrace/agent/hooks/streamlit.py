"""Runs of a Streamlit script, each of which answers something that its user did."""

from pathlib import PurePath
from typing import Any, Final

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.queues.messages import fail_work, timed_work

_RUNNER: Final = "streamlit.runtime.scriptrunner.script_runner"


def _run(args: tuple[Any, ...], _: dict[str, Any]) -> tuple[str, dict[str, str], HookAttributes]:
    return f"run {PurePath(str(args[0]._main_script_path)).name}", {}, {}


def _note_failure(_: Recorder, __: Arguments, outcome: tuple[Any, ...]) -> None:
    """Note what the script raised, which Streamlit shows to its user."""
    *_before, error = outcome
    if isinstance(error, BaseException):  # older versions do not say
        fail_work(error)


class StreamlitHook(Hook):
    """Times each run as a request of its own."""

    requires = ("streamlit >= 1.30",)
    patches = (
        Replacement(_RUNNER, "ScriptRunner._run_script", timed_work(_run)),
        Replacement(
            _RUNNER,
            "exec_func_with_error_handling",
            after("noting an exception", _note_failure),
            optional=True,
        ),
    )
