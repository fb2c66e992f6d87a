"""Parts that calls of models have in common: names, sizes, and the phases of a generation."""

from collections.abc import Callable, Sized
from pathlib import PurePath
from typing import Any

from opentelemetry.context import Context

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.timing.hook import Arguments, HookAttributes
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage


def model_attributes(model: Any) -> HookAttributes:
    """Return the name of a model, of a path the last part; nothing of one that has none."""
    name = PurePath(str(getattr(model, "name_or_path", model) or "")).name
    return {semconv.GEN_AI_REQUEST_MODEL: name} if name else {}


def generation_attributes(provider: str) -> HookAttributes:
    return {
        semconv.GEN_AI_OPERATION_NAME: "text_completion",
        semconv.GEN_AI_PROVIDER_NAME: provider,
    }


def count_of(*names: str) -> Callable[[Arguments], HookAttributes]:
    """Describe a call by how many inputs it has, in the first of these arguments."""

    def describe(arguments: Arguments) -> HookAttributes:
        inputs = next((arguments[name] for name in names if name in arguments), None)
        if isinstance(inputs, Sized) and not isinstance(inputs, str):
            return {semconv.BATCH_SIZE: len(inputs)}
        return {semconv.BATCH_SIZE: 1}

    return describe


class Phases:
    """The prefill of one sequence, which its first token ends, and then its decoding.

    Args:
        context: Where their spans belong; None: to what is current.
        started_ns: A monotonic time; None: now.
    """

    def __init__(
        self,
        recorder: Recorder,
        tokens: MadeTokens,
        context: Context | None = None,
        started_ns: int | None = None,
    ) -> None:
        self.made = 0
        self._recorder = recorder
        self._tokens = tokens
        self._context = context
        self._phase: Timing = self._start("prefill", Stage.PREFILL, started_ns)

    def token(self) -> None:
        self.made += 1
        if self.made > 1:
            self._tokens.add()
            return
        now_ns = monotonic_ns()
        self._tokens.add(now_ns)
        self._phase.end(now_ns)
        self._phase = self._start("decode", Stage.DECODE, now_ns)

    def end(self, error: BaseException | None = None) -> HookAttributes:
        """End the phase under way, and return how many tokens were made."""
        made: HookAttributes = {semconv.GEN_AI_USAGE_OUTPUT_TOKENS: self.made}
        if error is not None:
            self._phase.fail(error)
        if self.made:
            times = self._tokens.described(self._phase.started_ns)
            self._phase.note({**made, **times, semconv.BATCH_SIZE: 1})
        self._phase.end()
        return made

    def _start(self, name: str, stage: Stage, started_ns: int | None) -> Timing:
        return self._recorder.start(name, stage, context=self._context, started_ns=started_ns)
