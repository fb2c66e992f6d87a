"""Waits for `ffmpeg` and `ffprobe`, which a request runs as programs, by whatever library."""

import os
from pathlib import PurePath
from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model.stage import Stage

_PROGRAMS: Final = frozenset({"ffmpeg", "ffprobe"})
_counted: Final = CountWithin()


def _is_one(process: Any, *_: object, **__: object) -> bool:
    """Tell whether a process that is waited for is one of these programs, and runs."""
    if process.returncode is not None:
        return False
    command = process.args
    words = [command] if isinstance(command, os.PathLike) else command
    if isinstance(command, str | bytes):  # a line, of a shell as a rule
        words = command.split()
    if not isinstance(words, list | tuple) or not words:
        return False
    return PurePath(os.fsdecode(words[0])).stem in _PROGRAMS


class FfmpegHook(Hook):
    """Times waits for their end, and for what they write, within a request."""

    patches = tuple(
        first_of_each_span(
            Patch(
                "subprocess",
                f"Popen.{method}",
                Stage.PREPROCESS,
                part_of=(Stage.POSTPROCESS,),
                name="ffmpeg",
                within=True,
            ),
            counted=_counted,
            when=_is_one,
        )
        for method in ("communicate", "wait")
    )
