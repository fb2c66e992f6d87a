"""Translations and generations with CTranslate2."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model.stage import Stage

_counted: Final = CountWithin()


class Ctranslate2Hook(Hook):
    """Times its models' calls, within a request: prefill and decoding are one."""

    requires = ("ctranslate2 >= 4.0",)
    patches = tuple(
        first_of_each_span(
            Patch("ctranslate2", target, stage, within=True, optional=True), counted=_counted
        )
        for target, stage in (
            ("Translator.translate_batch", Stage.DECODE),
            ("Translator.generate_tokens", Stage.DECODE),
            ("Translator.score_batch", Stage.FORWARD),
            ("Generator.generate_batch", Stage.DECODE),
            ("Generator.generate_tokens", Stage.DECODE),
            ("Generator.score_batch", Stage.FORWARD),
            ("Generator.forward_batch", Stage.FORWARD),
            ("Encoder.forward_batch", Stage.FORWARD),
        )
    )
