"""Where answers of models' APIs say which model made them, of how many tokens, and why it ended.

Of a chunk with output nothing else is asked for, but of the last one: there may be one a token.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

Paths = tuple[str, ...]  # of attributes or keys: `usage.input_tokens`; of a list each item's


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """Places in an answer, or in a chunk of one that is streamed; the first that is there counts.

    Args:
        cached_tokens: Of the prompt, that were in a cache.
        reasons: Why it ended, of each of its choices.
        output: Of a chunk: it has a part of the output where one of these is not empty.
        input_parts: Tokens of the prompt that `input_tokens` leaves out.
        output_parts: Tokens of the answer that `output_tokens` leaves out.
        times: What the other side did, one after the other, and where it says for how many ns.
        chunk: The attribute of a chunk with what is of this form; None: it is so itself.
        iterator: The attribute of a stream with what it iterates over; None: streams of this form
            are generators, or those of `stream_in`.
        stream_in: Finds a stream in an answer whose steps the hook tells of; None: it has none.
    """

    model: Paths = ("model",)
    input_tokens: Paths = ()
    output_tokens: Paths = ()
    cached_tokens: Paths = ()
    reasons: Paths = ()
    output: Paths = ()
    input_parts: Paths = ()
    output_parts: Paths = ()
    times: tuple[tuple[Stage, str], ...] = ()
    chunk: str | None = None
    iterator: str | None = None
    stream_in: Callable[[Any], Any] | None = None

    def described(self, answer: object) -> HookAttributes:
        """Note model, tokens and finish reasons of an answer or a chunk, never what is in it."""
        noted: HookAttributes = {}
        model = _first(answer, self.model)
        if isinstance(model, str):
            noted[semconv.GEN_AI_RESPONSE_MODEL] = model
        for key, paths, parts in (
            (semconv.GEN_AI_USAGE_INPUT_TOKENS, self.input_tokens, self.input_parts),
            (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, self.output_tokens, self.output_parts),
            (semconv.GEN_AI_USAGE_CACHED_INPUT_TOKENS, self.cached_tokens, ()),
        ):
            count = _count(_first(answer, paths))
            if count is not None:
                more = (_count(each) for path in parts for each in found(answer, path))
                noted[key] = count + sum(filter(None, more))
        reasons = (why for path in self.reasons for why in found(answer, path) if why)
        texts = tuple(str(getattr(why, "value", why)) for why in reasons)
        if texts:
            noted[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = texts
        return noted

    def has_output(self, chunk: object) -> bool:
        """Say whether a chunk has a part of the output, and not a role or a count alone."""
        if isinstance(chunk, str):
            return bool(chunk)
        return any(value for path in self.output for value in found(chunk, path))

    def reported(self, answer: object) -> list[tuple[Stage, int]]:
        """Return what the other side did and for how many nanoseconds, as far as it says."""
        lengths = ((stage, _count(_first(answer, (path,)))) for stage, path in self.times)
        return [(stage, length_ns) for stage, length_ns in lengths if length_ns]


def found(value: Any, path: str) -> Iterator[Any]:
    """Find what lies at a path; of a list on the way, in each of its items."""
    name, _, rest = path.partition(".")
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from found(each, path)
        return
    inner = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    if inner is None:
        return
    if rest:
        yield from found(inner, rest)
    else:
        yield inner


def _first(answer: object, paths: Paths) -> object:
    return next((value for path in paths for value in found(answer, path)), None)


def _count(value: object) -> int | None:
    """Read a number of tokens, which some send as a float and headers as text."""
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return int(value) if isinstance(value, (int, float)) else None


OPENAI = AnswerForm(  # of chats, completions and embeddings; of responses and their events
    model=("model", "response.model"),
    input_tokens=("usage.prompt_tokens", "usage.input_tokens", "response.usage.input_tokens"),
    output_tokens=(
        "usage.completion_tokens",
        "usage.output_tokens",
        "response.usage.output_tokens",
    ),
    cached_tokens=(
        "usage.prompt_tokens_details.cached_tokens",
        "usage.input_tokens_details.cached_tokens",
        "response.usage.input_tokens_details.cached_tokens",
    ),
    reasons=("choices.finish_reason",),
    output=(
        "choices.delta.content",
        "choices.text",
        "delta",
        "choices.delta.tool_calls",
        "choices.delta.reasoning_content",
        "choices.delta.reasoning",
        "choices.delta.refusal",
    ),
    iterator="_iterator",
)
