"""Calls of models with LiteLLM in the program; what it calls beneath is their inner half."""

from dataclasses import replace
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from latencytrace.agent.timing.hook import Arguments, Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.models.answer_form import OPENAI
from latencytrace.agent.toolkit.models.model_api import ModelApi, first_at
from latencytrace.agent.toolkit.models.remote_model import ModelCall, open_call
from latencytrace.model.stage import Stage

_STREAMS = "litellm.litellm_core_utils.streaming_handler"
_STREAM = "CustomStreamWrapper"
_AUTH = "litellm.proxy.auth.user_api_key_auth"


def _provider(arguments: Arguments) -> str:
    """Return the provider by LiteLLM's own name, which may begin the model's."""
    named = first_at(arguments, ("custom_llm_provider",))
    prefix, slash, _ = str(arguments.get("model") or "").partition("/")
    return str(named or (prefix if slash else "litellm"))


def _stream_in(answer: Any) -> Any:
    return answer if type(answer).__name__ == _STREAM else None


_API = ModelApi(
    provider=_provider,
    url="api_base",
    inputs=("input", "documents"),
    form=replace(OPENAI, iterator=None, stream_in=_stream_in),
)


def time_steps(_: Recorder, original: Timed) -> Timed:
    """Note each chunk that a program takes from a stream, and its end."""

    @wraps(original)
    def step(self: Any) -> Any:
        call = open_call(self)
        try:
            chunk = original(self)
        except BaseException as error:
            _ended(call, error)
            raise
        return _noted(call, chunk)

    @wraps(original)
    async def awaited_step(self: Any) -> Any:
        call = open_call(self)
        try:
            chunk = await original(self)
        except BaseException as error:
            _ended(call, error)
            raise
        return _noted(call, chunk)

    return awaited_step if iscoroutinefunction(original) else step


def _noted(call: ModelCall | None, chunk: Any) -> Any:
    if call is not None:
        call.note(chunk)
    return chunk


def _ended(call: ModelCall | None, error: BaseException) -> None:
    if call is None:
        return
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        call.end()
    else:
        call.fail(error)


# Steps of the proxy, in functions that it looks up when it calls them: FastAPI keeps its
# dependencies. What else it does for a request is FastAPI's, or done after the answer.
_PROXY_STEPS: Final = (
    (_AUTH, "_read_request_body_deferring_parse_failure", Stage.PREPROCESS, "read_body"),
    (_AUTH, "_read_request_body", Stage.PREPROCESS, "read_body"),  # of older versions
    (_AUTH, "user_api_key_auth_builder", Stage.PREPROCESS, "auth"),
    (_AUTH, "_user_api_key_auth_builder", Stage.PREPROCESS, "auth"),  # likewise
    (_AUTH, "_authorize_authenticated_request", Stage.PREPROCESS, "authorize"),
    (
        "litellm.proxy.common_request_processing",
        "ProxyBaseLLMRequestProcessing.common_processing_pre_call_logic",
        Stage.PREPROCESS,
        "pre_call",
    ),
    ("litellm.router", "Router.async_get_available_deployment", Stage.PREPROCESS, "route"),
    ("litellm.proxy.utils", "ProxyLogging.post_call_success_hook", Stage.POSTPROCESS, "post_call"),
)


class LitellmHook(Hook):
    """Times the package's functions; its router calls them by that name, too."""

    requires = ("litellm >= 1.60",)
    patches = (
        *_API.calls("litellm", "", "completion acompletion", "chat"),
        *_API.calls("litellm", "", "text_completion atext_completion", "text_completion"),
        *_API.calls("litellm", "", "responses aresponses", "chat", optional=("litellm",)),
        *_API.calls("litellm", "", "embedding aembedding", "embeddings", Stage.EMBED),
        *_API.calls("litellm", "", "rerank arerank", "", Stage.RERANK, optional=("litellm",)),
        *_API.calls("litellm", "", "moderation amoderation", "", Stage.GUARDRAIL),
        *(
            Patch(module, target, stage, name=name, optional=True, within=True)
            for module, target, stage, name in _PROXY_STEPS
        ),
        Replacement(_STREAMS, f"{_STREAM}.__next__", time_steps),
        Replacement(_STREAMS, f"{_STREAM}.__anext__", time_steps),
    )
