"""Generation loops of a program's own: a model called for each token, with a growing cache."""

from collections.abc import Mapping
from typing import Any, Final
from weakref import ref

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import current
from latencytrace.agent.device.timer import DevicePasses
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.runtime_gaps import GAPS, RuntimeGaps
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.models.calls import model_attributes
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_CACHES: Final = ("cache", "past_key_values")  # the latter until transformers 5.20 or so
_INPUTS: Final = ("input_ids", "inputs_embeds")


class OwnLoop:
    """One generation: the passes over its prompt, and from their end to that of the last pass.

    Which pass is the last is known when the request ends.

    Args:
        shape: Rows and tokens of its prompt.
    """

    def __init__(self, recorder: Recorder, model: Any, shape: tuple[int, ...]) -> None:
        self._recorder = recorder
        self._model = ref(model)
        self._cache: ref[Any] | None = None  # None: each pass has another one
        self._rows = int(shape[0])
        self._noted: HookAttributes = {
            **model_attributes(model),
            semconv.BATCH_SIZE: self._rows,
            semconv.GEN_AI_USAGE_INPUT_TOKENS: self._rows * int(shape[1]),
        }
        self._phase: Timing = recorder.start("prefill", Stage.PREFILL, self._noted)
        self._stage = Stage.PREFILL
        self._passes: DevicePasses | None = None
        self._tokens = MadeTokens()
        self._made = 0  # of each row
        self._over_ns = self._phase.started_ns  # when its last pass was

    def takes(self, model: Any, cache: object) -> bool:
        """Say whether a pass of this model with this cache is one of its passes."""
        if self._model() is not model or cache is None:
            return False
        return self._cache is None or self._cache() is cache

    def begin_pass(self, length: int) -> "_Pass":
        """Begin a pass over so many tokens of each row."""
        if self._stage is Stage.PREFILL and self._made and length == 1:
            self._end_phase()
            self._stage = Stage.DECODE
            self._phase = self._recorder.start(
                "decode", Stage.DECODE, self._noted, started_ns=self._over_ns
            )
        return _Pass(self, self._stage, self._phase, self._recorder)

    def compute(self, passes: DevicePasses) -> None:
        """Have a pass timed on its device, too."""
        if self._passes is None:
            self._passes = passes.another(self._stage)
        self._passes.settle()
        self._passes.begin()

    def passed(self, result: object) -> None:
        """Note that a pass is over, which makes a token of each row."""
        self._over_ns = monotonic_ns()
        if self._passes is not None:
            self._passes.end()
        self._made += 1
        self._tokens.add(self._over_ns)
        cache = cache_in(getattr(result, "__dict__", {}))
        if self._cache is None and cache is not None and not isinstance(cache, tuple):
            self._cache = ref(cache)

    def failed(self, error: BaseException) -> None:
        """Note what a pass raised."""
        self._over_ns = monotonic_ns()
        self._phase.fail(error)

    def end(self) -> None:
        """End what is under way, at the end of the last pass."""
        if self._stage is Stage.DECODE:
            self._phase.note(
                {
                    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: self._rows * self._made,
                    **self._tokens.described(self._phase.started_ns),
                }
            )
        self._end_phase()

    def _end_phase(self) -> None:
        passes, self._passes = self._passes, None
        if passes is None:
            self._phase.end(self._over_ns)
        else:
            passes.drop_open()
            self._recorder.devices.pending.end(self._phase, self._over_ns, passes)


class _Pass(Call):
    """One pass, within the span of its phase."""

    __slots__ = ("_loop",)

    def __init__(self, loop: OwnLoop, stage: Stage, phase: Timing, recorder: Recorder) -> None:
        super().__init__(stage, phase, recorder.on_fault)
        self._loop = loop

    def on_device(self, passes: DevicePasses) -> None:
        """Have it timed with the others of its phase."""
        self._loop.compute(passes)

    def finish(self, result: object) -> None:
        """Note that it is over; its phase goes on."""
        with guarded("ending a pass", self._on_fault):
            self._loop.passed(result)

    def fail(self, error: BaseException) -> None:
        """Note what it raised."""
        with guarded("noting an exception", self._on_fault):
            self._loop.failed(error)


def cache_in(named: Mapping[str, Any]) -> Any:
    return next((named[name] for name in _CACHES if named.get(name) is not None), None)


def pass_of_own_loop(recorder: Recorder, model: Any, args: Any, kwargs: Any) -> Call | None:
    """Begin a pass that is one of a loop; None: it is none, or serves no request.

    Args:
        args: What the model is called with.
        kwargs: Likewise; a program that goes on with a cache names it, or asks for one.
    """
    if not kwargs.get("use_cache") and kwargs.keys().isdisjoint(_CACHES):
        return None
    gaps = current().get(GAPS)
    given = next((kwargs[name] for name in _INPUTS if name in kwargs), args[0] if args else None)
    shape: tuple[int, ...] = getattr(given, "shape", ())
    if not isinstance(gaps, RuntimeGaps) or len(shape) < 2:  # noqa: PLR2004 - rows and tokens
        return None
    cache = cache_in(kwargs)
    loops = gaps.unfinished = gaps.unfinished or []
    for one in reversed(loops):
        if isinstance(one, OwnLoop) and one.takes(model, cache):
            return one.begin_pass(int(shape[1]))
    loop = OwnLoop(recorder, model, shape)
    loops.append(loop)
    return loop.begin_pass(int(shape[1]))
