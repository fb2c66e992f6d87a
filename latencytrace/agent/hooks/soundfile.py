"""Audio that a request reads and writes with soundfile."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.model.stage import Stage


class SoundfileHook(Hook):
    """Times whole files and blocks of one, within a request: of each span the first 256."""

    requires = ("soundfile >= 0.12",)
    patches = tuple(
        first_of_each_span(Patch("soundfile", target, stage, within=True))
        for target, stage in (
            ("read", Stage.PREPROCESS),
            ("SoundFile.read", Stage.PREPROCESS),
            ("write", Stage.POSTPROCESS),
            ("SoundFile.write", Stage.POSTPROCESS),
        )
    )
