"""Generation and tokenizing with `transformers`: `generate` split into prefill and decode."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from opentelemetry.context import attach, create_key, detach, get_value, set_value

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.hook import Hook, HookAttributes, Patch, Replacement, Timed
from latencytrace.agent.recorder import Recorder, Timing
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_GENERATION = create_key("latencytrace.generation")
_TOKENIZER = "transformers.tokenization_utils_base"


class Generation:
    """One call of `generate`: prepared, prefilled to its first token, decoded to its last.

    No span and no event is made for a token. The model's own boundaries are read from
    calls that `generate` makes anyway: `_prefill`, and the stopping criteria that are
    asked once after each token, when the host knows it.
    """

    def __init__(self, recorder: Recorder, model: Any, arguments: Mapping[str, Any]) -> None:  # noqa: ANN401
        self._recorder = recorder
        self._maximum = arguments.get("max_new_tokens")
        self.timing: Timing = recorder.start(
            "generate", Stage.PREPROCESS, _describe_generation(model, arguments)
        )
        self.timing.collect_intervals()
        self._batch_size = 1
        self._phase: Timing | None = None  # prefill, then decode
        self._first_length = 0
        self._tokens = 0

    def prefill(self) -> Timing:
        """Begin the prefill."""
        self._phase = self._recorder.start("prefill", Stage.PREFILL)
        return self._phase

    def token(self, input_ids: Any) -> None:  # noqa: ANN401 - a tensor, of which only the shape is read
        """Note that the host knows one more token of each sequence."""
        length = input_ids.shape[-1]
        if self._tokens == 0:
            now_ns = monotonic_ns()
            self._first_length = length
            self._batch_size = input_ids.shape[0]
            prefill = self._phase or self._recorder.start(
                "prefill", Stage.PREFILL, started_ns=self.timing.started_ns
            )
            prefill.end(now_ns)
            self._phase = self._recorder.start("decode", Stage.DECODE, started_ns=now_ns)
        self._tokens = length - self._first_length + 1

    def end(self) -> None:
        """End what is under way, with the counts."""
        with guarded("ending a generation", self._recorder.on_fault):
            counts: HookAttributes = {}
            if self._tokens:
                counts[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] = self._tokens * self._batch_size
                counts[semconv.BATCH_SIZE] = self._batch_size
                self.timing.note(counts)
                if isinstance(self._maximum, int):
                    reason = "length" if self._tokens >= self._maximum else "stop"
                    self.timing.note({semconv.GEN_AI_RESPONSE_FINISH_REASONS: (reason,)})
            now_ns = monotonic_ns()
            if self._phase is not None:
                self._phase.note(counts)
                self._phase.end(now_ns)
            self.timing.end(now_ns)

    def fail(self, error: BaseException) -> None:
        """Note what the generation raised."""
        with guarded("noting an exception", self._recorder.on_fault):
            self.timing.fail(error)


def _describe_generation(model: Any, arguments: Mapping[str, Any]) -> HookAttributes:  # noqa: ANN401
    attributes: HookAttributes = {semconv.GEN_AI_OPERATION_NAME: "text_completion"}
    name = getattr(model, "name_or_path", "") or type(model).__name__
    attributes[semconv.GEN_AI_REQUEST_MODEL] = PurePath(str(name)).name
    inputs = arguments.get("input_ids", arguments.get("inputs"))
    shape = getattr(inputs, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:  # noqa: PLR2004 - batch and length
        attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] = int(shape[0]) * int(shape[1])
    return attributes


def _under_way() -> Generation | None:
    generation = get_value(_GENERATION)
    return generation if isinstance(generation, Generation) else None


def time_generate(recorder: Recorder, original: Timed) -> Timed:
    """Time a whole generation; one inside another (a draft model's) is part of it."""

    def begin(model: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generation | None:
        with guarded("starting a generation", recorder.on_fault):
            if _under_way() is None and not recorder.suppressed():
                arguments = {"inputs": args[0], **kwargs} if args else kwargs
                return Generation(recorder, model, arguments)
        return None

    def generate(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        generation = begin(self, args, kwargs)
        if generation is None:
            return original(self, *args, **kwargs)
        token = attach(set_value(_GENERATION, generation, generation.timing.context()))
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            generation.fail(error)
            raise
        finally:
            generation.end()
            detach(token)

    generate.__wrapped__ = original  # type: ignore[attr-defined]  # as functools.wraps: transformers reads its signature
    return generate


def time_prefill(recorder: Recorder, original: Timed) -> Timed:
    """Time the first forward pass over the prompt, in one piece or in chunks."""

    def _prefill(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        generation = _under_way()
        if generation is not None:
            with guarded("starting a prefill", recorder.on_fault):
                generation.prefill()
        return original(self, *args, **kwargs)

    return _prefill


def time_token(recorder: Recorder, original: Timed) -> Timed:
    """Note each token when the stopping criteria are asked about it."""

    def __call__(self: object, input_ids: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N807
        generation = _under_way()
        if generation is not None:
            with guarded("noting a token", recorder.on_fault):
                generation.token(input_ids)
        return original(self, input_ids, *args, **kwargs)

    return __call__


class TransformersHook(Hook):
    """Times `generate`, the chat template and the tokenizers of every model."""

    requires = ("transformers >= 4.40",)
    patches = (
        Replacement("transformers.generation.utils", "GenerationMixin.generate", time_generate),
        Replacement(
            "transformers.generation.utils",
            "GenerationMixin._prefill",
            time_prefill,
            optional=True,  # since version 5; before, the prefill counts from the start
        ),
        Replacement(
            "transformers.generation.stopping_criteria",
            "StoppingCriteriaList.__call__",
            time_token,
        ),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.apply_chat_template", Stage.PREPROCESS),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.__call__", Stage.TOKENIZE),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.encode", Stage.TOKENIZE),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.decode", Stage.DETOKENIZE, interleaved=True),
        Patch(
            _TOKENIZER, "PreTrainedTokenizerBase.batch_decode", Stage.DETOKENIZE, interleaved=True
        ),
    )
