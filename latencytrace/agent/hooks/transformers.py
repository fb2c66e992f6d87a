"""Generation and tokenizing with `transformers`: `generate` split into prefill and decode."""

from collections.abc import Mapping
from functools import wraps
from pathlib import PurePath
from typing import Any

from opentelemetry.context import attach, create_key, detach, get_value, set_value

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.device.timer import DevicePasses
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import (
    Arguments,
    Hook,
    HookAttributes,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.calls import before
from latencytrace.agent.toolkit.models.calls import generation_attributes
from latencytrace.agent.toolkit.models.counted_streamer import CountedStreamer, counted_streamer
from latencytrace.agent.toolkit.models.own_loops import cache_in
from latencytrace.agent.toolkit.models.weights import model_size
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_GENERATION = create_key("latencytrace.generation")
_INNER = object()  # in its place: a generation that another one makes
_TOKENIZER = "transformers.tokenization_utils_base"


class Generation:
    """One call of `generate`: prepared, prefilled to its first token, decoded to its last.

    No span and no event is made for a token. The model's own boundaries are read from
    calls that `generate` makes anyway: `_prefill`; the stopping criteria, which are shown
    each token; and the question whether to go on, before which the host waits for it.
    """

    def __init__(self, recorder: Recorder, model: Any, arguments: Mapping[str, Any]) -> None:
        self._recorder = recorder
        self._model = model
        self._name = _name_of(model)
        self.timing: Timing = recorder.start(
            "generate", Stage.PREPROCESS, _describe_generation(self._name, arguments)
        )
        self.timing.collect_intervals()
        self._phase: Timing | None = None  # prefill, then decode
        self._passes: DevicePasses | None = None  # of the phase; None: on no device that is timed
        self._decoding = False
        self._tokens = MadeTokens()
        self._streamer: CountedStreamer | None = None
        self._streamed_ns: int | None = None  # when a streamer got its last token
        self._continues = cache_in(arguments) is not None
        shape = _shape_of(arguments)
        self._prompts = shape[0] if shape else None
        own_prompt = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        self._prompt_length = shape[1] if shape and not own_prompt else None
        self._length = 0  # of each sequence, its prompt included
        self._rows = 1
        self._pass_shape: tuple[int, int] | None = None  # tokens and rows of each of its passes
        self._limit: int | None = None  # the longest that `_length` may become
        self._ends: frozenset[int] = frozenset()  # tokens that end a sequence

    def prefill(self, input_ids: Any) -> None:
        self._recorder.steps.begin()
        self._prompt_length = input_ids.shape[-1]
        if not self._continues:  # else an unknown part of it is in the cache already
            self._pass_shape = (input_ids.shape[0] * input_ids.shape[-1], input_ids.shape[0])
        if self._phase is None:
            self._phase = self._recorder.start("prefill", Stage.PREFILL)
        self._passes = self._recorder.devices.passes_on(input_ids.device, Stage.PREFILL)
        if self._passes is not None:
            self._passes.begin()

    def token(self, criteria: Any, input_ids: Any) -> None:
        """Note that each sequence has one more token, which a device may still compute."""
        if not self._length:
            self._limit = getattr(criteria, "max_length", None)
            if input_ids.device.type == "cpu":  # reading it elsewhere would wait for the device
                self._ends = _ending_tokens(criteria)
            if self._prompt_length is None:
                self._prompt_length = input_ids.shape[-1] - 1
            if self._phase is None:
                self._phase = self._recorder.start(
                    "prefill", Stage.PREFILL, started_ns=self.timing.started_ns
                )
        self._length = input_ids.shape[-1]
        self._rows = self._prompts or input_ids.shape[0]
        if self._passes is not None:
            self._passes.end()

    def count_streamed(self, arguments: dict[str, Any]) -> None:
        if arguments.get("streamer") is not None:
            streamer = arguments["streamer"]
            self._streamer = counted_streamer(self, streamer, self._recorder.on_fault)
            arguments["streamer"] = self._streamer or streamer

    def streamed(self, tokens: int) -> None:
        """Note that tokens were made that a streamer gets; so many may leave at once."""
        self._streamed_ns = monotonic_ns()
        self._tokens.add(self._streamed_ns, tokens)

    def let_go(self, tokens: int) -> None:
        """Note that a streamer lets tokens go that it held back."""
        self._tokens.let_go(tokens)

    def step(self) -> None:
        """Note that the host knows the tokens so far: the first ends the prefill."""
        if not self._length:
            return
        self._recorder.steps.begin()
        streamed_ns = self._streamed_ns
        if self._decoding:
            if streamed_ns is None:
                self._tokens.add()
        else:
            now_ns = monotonic_ns() if streamed_ns is None else streamed_ns
            if streamed_ns is None:
                self._tokens.add(now_ns)
            self._decoding = True
            self._end_phase(now_ns)
            self._phase = self._recorder.start("decode", Stage.DECODE, started_ns=now_ns)
        if self._passes is not None:
            self._recorder.devices.pending.settle()
            self._passes.settle()
            self._passes.begin()

    def _end_phase(self, now_ns: int) -> None:
        """End the phase, as soon as its device is done with it; the next has passes of its own."""
        phase, passes = self._phase, self._passes
        if passes is not None:
            passes.drop_open()
            self._passes = passes.another(Stage.DECODE)
        if phase is None:
            return
        if passes is None:
            phase.end(now_ns)
        else:
            phase.note({semconv.GEN_AI_REQUEST_MODEL: self._name})
            with guarded("weighing a model", self._recorder.on_fault):
                phase.note(self._described_passes())
            self._recorder.devices.pending.end(phase, now_ns, passes)

    def _described_passes(self) -> HookAttributes:
        """Say what each pass of a phase must read and compute; decoding makes one token a row."""
        size, shape = model_size(self._model), self._pass_shape
        self._pass_shape = (self._rows, self._rows)  # of the next phase
        if size is None:
            return {}
        described: HookAttributes = {semconv.WEIGHT_BYTES: size.weight_bytes}
        flops = size.pass_flops(*shape) if shape is not None else None
        return described if flops is None else {**described, semconv.MODEL_FLOPS: flops}

    def finish(self, result: Any) -> None:
        """Note what the generation made."""
        with guarded("describing a generation", self._recorder.on_fault):
            sequences = getattr(result, "sequences", result)
            shape: tuple[int, ...] = getattr(sequences, "shape", ())
            if not self._length:  # generated in a way that we do not see into
                self.timing.note({semconv.STAGE: Stage.OTHER.value})
            elif len(shape) == 2:  # noqa: PLR2004 - sequences and their length
                self._rows = shape[0]
                self._note_counts(self._made(sequences))

    def fail(self, error: BaseException) -> None:
        """Note what the generation raised."""
        with guarded("noting an exception", self._recorder.on_fault):
            self.timing.fail(error)
            if self._length:
                self._note_counts(self._steps * self._rows)

    def end(self) -> None:
        """End what is under way."""
        with guarded("ending a generation", self._recorder.on_fault):
            now_ns = monotonic_ns()
            if self._streamer is not None:
                self._streamer.restore()
            if self._phase is not None:
                self._phase.note(self._tokens.described(self._phase.started_ns))
            self._end_phase(now_ns)
            self.timing.end(now_ns)

    @property
    def _steps(self) -> int:
        return self._length - (self._prompt_length or 0)

    def _note_counts(self, made: int) -> None:
        """Note the tokens that were made, and on the decoding how often one was made of each."""
        self.timing.note(
            {
                semconv.GEN_AI_USAGE_OUTPUT_TOKENS: made,
                semconv.BATCH_SIZE: self._prompts or self._rows,
            }
        )
        if self._limit is not None:
            reason = "length" if self._length >= self._limit else "stop"
            self.timing.note({semconv.GEN_AI_RESPONSE_FINISH_REASONS: (reason,)})
        if self._decoding and self._phase is not None:
            self._phase.note(
                {
                    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: self._steps * self._rows,
                    semconv.BATCH_SIZE: self._rows,
                }
            )

    def _made(self, sequences: Any) -> int:
        """Tokens made, without what pads the shorter sequences of a batch."""
        start = self._prompt_length or 0
        length = sequences.shape[1] - start
        if self._rows == 1 or not self._ends:
            return int(self._rows * length)
        return sum(
            next((at for at, token in enumerate(row, 1) if token in self._ends), length)
            for row in sequences[:, start:].tolist()
        )


def _ending_tokens(criteria: Any) -> frozenset[int]:
    known = (getattr(criterion, "eos_token_id", None) for criterion in criteria)
    return frozenset(token for tokens in known if tokens is not None for token in tokens.tolist())


def _shape_of(arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how many prompts of which length; None: unknown."""
    inputs = arguments.get("input_ids", arguments.get("inputs"))
    shape: tuple[int, ...] = getattr(inputs, "shape", ())
    return (int(shape[0]), int(shape[1])) if len(shape) == 2 else None  # noqa: PLR2004 - batch and length


def _name_of(model: Any) -> str:
    return PurePath(str(getattr(model, "name_or_path", "") or type(model).__name__)).name


def _describe_generation(model: str, arguments: Mapping[str, Any]) -> HookAttributes:
    attributes: HookAttributes = {
        **generation_attributes("transformers"),
        semconv.GEN_AI_REQUEST_MODEL: model,
    }
    shape = _shape_of(arguments)
    if shape is not None:
        attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] = shape[0] * shape[1]
    return attributes


def _under_way() -> Generation | None:
    generation = get_value(_GENERATION)
    return generation if isinstance(generation, Generation) else None


def time_generate(recorder: Recorder, original: Timed) -> Timed:
    """Time a whole generation; one inside another (a draft model's) is part of it."""

    def begin(model: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generation | None:
        with guarded("starting a generation", recorder.on_fault):
            if not recorder.suppressed():
                arguments = {"inputs": args[0], **kwargs} if args else kwargs
                return Generation(recorder, model, arguments)
        return None

    @wraps(original)  # transformers reads its signature
    def generate(self: object, *args: Any, **kwargs: Any) -> Any:
        if get_value(_GENERATION) is not None:
            token = attach(set_value(_GENERATION, _INNER))
            try:
                return original(self, *args, **kwargs)
            finally:
                detach(token)
        generation = begin(self, args, kwargs)
        if generation is None:
            return original(self, *args, **kwargs)
        with guarded("counting a streamer's tokens", recorder.on_fault):
            generation.count_streamed(kwargs)
        token = attach(set_value(_GENERATION, generation, generation.timing.context()))
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            generation.fail(error)
            raise
        else:
            generation.finish(result)
            return result
        finally:
            generation.end()
            detach(token)

    return generate


def _note_prefill(_: Recorder, arguments: Arguments) -> None:
    """Time the first forward pass over the prompt, in one piece or in chunks."""
    generation = _under_way()
    if generation is not None:
        generation.prefill(arguments["input_ids"])


def time_token(recorder: Recorder, original: Timed) -> Timed:
    """Note each token when the stopping criteria are asked about it."""

    def __call__(self: object, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        generation = _under_way()
        if generation is not None:
            with guarded("noting a token", recorder.on_fault):
                generation.token(self, input_ids)
        return original(self, input_ids, *args, **kwargs)

    return __call__


def time_step(recorder: Recorder, original: Timed) -> Timed:
    """Note when the loop over tokens goes on: the host has seen the one before."""

    def _has_unfinished_sequences(self: object, *args: Any, **kwargs: Any) -> Any:
        generation = _under_way()
        if generation is not None:
            with guarded("noting a step", recorder.on_fault):
                generation.step()
        return original(self, *args, **kwargs)

    return _has_unfinished_sequences


class TransformersHook(Hook):
    """Times `generate`, the chat template and the tokenizers of every model."""

    requires = ("transformers >= 4.40",)
    patches = (
        Replacement("transformers.generation.utils", "GenerationMixin.generate", time_generate),
        Replacement(
            "transformers.generation.utils",
            "GenerationMixin._prefill",
            before("starting a prefill", _note_prefill),
            optional=True,  # since version 5; before, the prefill counts from the start
        ),
        Replacement(
            "transformers.generation.utils",
            "GenerationMixin._has_unfinished_sequences",
            time_step,
        ),
        Replacement(
            "transformers.generation.stopping_criteria",
            "StoppingCriteriaList.__call__",
            time_token,
        ),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.apply_chat_template", Stage.PREPROCESS),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.__call__", Stage.TOKENIZE, interleaved=True),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.encode", Stage.TOKENIZE, interleaved=True),
        Patch(_TOKENIZER, "PreTrainedTokenizerBase.decode", Stage.DETOKENIZE, interleaved=True),
        Patch(
            _TOKENIZER, "PreTrainedTokenizerBase.batch_decode", Stage.DETOKENIZE, interleaved=True
        ),
    )
