"""Completions with `llama-cpp-python`, split into prefill and decode."""

from collections.abc import Generator, Iterator, Sequence, Sized
from functools import wraps
from typing import Any

from opentelemetry.context import Context, create_key, get_value, set_value

from latencytrace.agent.context import call_in
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.timing.wrapping import beginning, named_arguments, timed
from latencytrace.agent.toolkit.models.calls import (
    Phases,
    count_of,
    generation_attributes,
    model_attributes,
)
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_COMPLETION = create_key("latencytrace.completion")
_GENERATION = create_key("latencytrace.llama_generation")
_LLAMA = "llama_cpp.llama"


class Completion:
    """One completion, prepared, generated and detokenized, streamed or in one piece."""

    def __init__(self, recorder: Recorder, llama: Any, *, streamed: bool) -> None:
        self._recorder = recorder
        self._streamed = streamed
        self.timing: Timing = recorder.start("completion", Stage.PREPROCESS, _describe(llama))
        self.timing.collect_intervals()

    def next_of(self, chunks: Iterator[Any]) -> Any:
        """The next chunk, made with this completion current."""
        return call_in(set_value(_COMPLETION, self, self.timing.context()), next, chunks)

    def note(self, chunk: Any) -> None:
        """Note why an answer ended, if this chunk says so."""
        with guarded("describing a completion", self._recorder.on_fault):
            choices = chunk.get("choices") if isinstance(chunk, dict) else None
            reason = choices[0].get("finish_reason") if choices else None
            if isinstance(reason, str):
                self.timing.note({semconv.GEN_AI_RESPONSE_FINISH_REASONS: (reason,)})

    def fail(self, error: BaseException) -> None:
        """Note that it ended early; an answer in one piece is dropped after that piece."""
        with guarded("noting an exception", self._recorder.on_fault):
            if self._streamed or not isinstance(error, GeneratorExit):
                self.timing.fail(error)

    def end(self) -> None:
        with guarded("ending a completion", self._recorder.on_fault):
            self.timing.end()


class Generation:
    """One call of `generate`; its completion counts the tokens."""

    def __init__(self, recorder: Recorder, prompt_tokens: int) -> None:
        self._recorder = recorder
        self._prompt_tokens = prompt_tokens
        self._evaluated = 0  # tokens of the prompt that were not cached
        completion = get_value(_COMPLETION)
        self._whole = completion.timing if isinstance(completion, Completion) else None
        self._phases = Phases(recorder, MadeTokens())

    def context(self) -> Context:
        """The current context with this generation in it."""
        return set_value(_GENERATION, self)

    def evaluates(self, tokens: Sized) -> None:
        """Note that the model is given tokens."""
        if not self._phases.made:
            self._evaluated += len(tokens)

    def token(self) -> None:
        with guarded("noting a token", self._recorder.on_fault):
            self._phases.token()

    def end(self, error: BaseException | None = None) -> None:
        with guarded("ending a generation", self._recorder.on_fault):
            made = self._phases.end(error)
            if self._whole is not None:
                cached = max(self._prompt_tokens - self._evaluated, 0)
                self._whole.note(
                    {
                        **made,
                        semconv.GEN_AI_USAGE_INPUT_TOKENS: self._prompt_tokens,
                        semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS: cached,
                        semconv.BATCH_SIZE: 1,
                    }
                )


def _describe(llama: Any) -> HookAttributes:
    path = str(getattr(llama, "model_path", "")).removesuffix(".gguf")
    return {**generation_attributes("llama_cpp"), **model_attributes(path)}


def time_completion(recorder: Recorder, original: Timed) -> Timed:
    """Time a completion, from when its first chunk is asked for to its last."""
    arguments_of = named_arguments(original)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Completion | None:
        with guarded("starting a completion", recorder.on_fault):
            if not recorder.suppressed():
                streamed = bool(arguments_of(args, kwargs).get("stream"))
                return Completion(recorder, args[0], streamed=streamed)
        return None

    @wraps(original)
    def _create_completion(*args: Any, **kwargs: Any) -> Iterator[Any]:
        chunks: Generator[Any, None, None] = original(*args, **kwargs)
        completion = begin(args, kwargs)
        if completion is None:
            yield from chunks
            return
        try:
            while True:
                try:
                    chunk = completion.next_of(chunks)
                except StopIteration:
                    return
                completion.note(chunk)
                yield chunk
        except BaseException as error:
            chunks.close()
            completion.fail(error)
            raise
        finally:
            completion.end()

    return _create_completion


def time_generate(recorder: Recorder, original: Timed) -> Timed:
    """Time the tokens of one prompt."""

    def begin(tokens: Sequence[int]) -> Generation | None:
        with guarded("starting a generation", recorder.on_fault):
            return None if recorder.suppressed() else Generation(recorder, len(tokens))
        return None

    @wraps(original)
    def generate(self: object, tokens: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        made: Generator[int, Any, None] = original(self, tokens, *args, **kwargs)
        generation = begin(tokens)
        if generation is None:
            yield from made
            return
        answer: Any = None
        try:
            while True:
                try:
                    token = call_in(generation.context(), made.send, answer)
                except StopIteration:
                    break
                generation.token()
                answer = yield token
        except GeneratorExit:  # the caller has enough
            made.close()
            generation.end()
            raise
        except BaseException as error:
            generation.end(error)
            raise
        generation.end()

    return generate


def time_eval(recorder: Recorder, original: Timed) -> Timed:
    """Count what a generation evaluates; many tokens outside of one are a prefill."""
    patch = Patch(_LLAMA, "Llama.eval", Stage.PREFILL, name="prefill", within=True)
    as_prefill = timed(original, beginning(original, patch, recorder))

    @wraps(original)
    def evaluate(self: object, tokens: Sequence[int]) -> Any:
        generation = get_value(_GENERATION)
        if isinstance(generation, Generation):
            generation.evaluates(tokens)
        elif len(tokens) > 1:
            return as_prefill(self, tokens)
        return original(self, tokens)

    return evaluate


class LlamaCppHook(Hook):
    """Times the completions and embeddings of `Llama`."""

    requires = ("llama-cpp-python >= 0.3",)
    patches = (
        Replacement(_LLAMA, "Llama._create_completion", time_completion),
        Replacement(_LLAMA, "Llama.generate", time_generate),
        Replacement(_LLAMA, "Llama.eval", time_eval),
        Patch(_LLAMA, "Llama.tokenize", Stage.TOKENIZE, part_of=(Stage.EMBED,)),
        Patch(_LLAMA, "Llama.detokenize", Stage.DETOKENIZE, interleaved=True),
        Patch(_LLAMA, "Llama.embed", Stage.EMBED, count_of("input")),
        Patch(_LLAMA, "Llama.__init__", Stage.LOAD, within=True),
        Patch(
            "llama_cpp.llama_chat_format",
            "Jinja2ChatFormatter.__call__",
            Stage.PREPROCESS,
            name="chat_template",
        ),
    )
