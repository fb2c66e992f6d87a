"""Calls of models with `anthropic`: Anthropic's own, Bedrock's and Vertex AI's."""

from typing import Any

from latencytrace.agent.guard import FAULTS
from latencytrace.agent.timing.hook import Arguments, Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.timing.wrapping import named_arguments, timed
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.http.propagation import WITHHELD
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.models.model_api import ModelApi, first_at
from latencytrace.agent.toolkit.models.remote_model import note_closed, note_parsed
from latencytrace.agent.toolkit.within import Within
from latencytrace.model.stage import Stage

_BASE = "anthropic._base_client"
_ADDRESSES = frozenset({"/v1/messages", "/v1/complete"})
_PLATFORMS = {"Bedrock": "aws.bedrock", "Vertex": "gcp.vertex_ai"}


def _provider(arguments: Arguments) -> str:
    client = type(arguments["self"]).__name__
    return next((name for part, name in _PLATFORMS.items() if part in client), "anthropic")


def _asks_a_model(arguments: Arguments) -> bool:
    """Say whether a request is for a message, and the library has no span of its own for it."""
    address = str(first_at(arguments, ("options.url",))).partition("?")[0]
    return address in _ADDRESSES and first_at(arguments, ("self._tracer",)) is None


def _withhold(recorder: Recorder, original: Timed) -> Timed:
    """Send no header of ours within a call of which the program tells the library so."""
    arguments_of = named_arguments(original)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Within | None:
        try:
            said = first_at(arguments_of(args, kwargs), ("self._open_telemetry.propagation",))
        except FAULTS as fault:
            recorder.on_fault("looking whether a call carries a trace", fault)
            return None
        return Within(WITHHELD) if said is False else None

    return timed(original, begin)  # type: ignore[arg-type]  # it is no generator


_API = ModelApi(
    provider=_provider,
    url="self.base_url",
    model=("options.json_data.model",),
    is_one=_asks_a_model,
    form=AnswerForm(
        model=("model", "message.model"),
        input_tokens=("usage.input_tokens", "message.usage.input_tokens"),
        input_parts=tuple(
            f"{usage}.{part}_input_tokens"
            for usage in ("usage", "message.usage")
            for part in ("cache_read", "cache_creation")
        ),
        output_tokens=("usage.output_tokens",),
        cached_tokens=("usage.cache_read_input_tokens", "message.usage.cache_read_input_tokens"),
        reasons=("stop_reason", "delta.stop_reason"),
        output=("delta.text", "delta.thinking", "delta.partial_json"),
        iterator="_iterator",
    ),
)
_close = after("closing a stream", note_closed)
_parse = after("parsing a raw answer", note_parsed)


class AnthropicHook(Hook):
    """Times what every message is sent with, streamed or not, and the waits before it is again."""

    requires = ("anthropic >= 0.40",)
    patches = (
        *_API.calls(_BASE, "SyncAPIClient AsyncAPIClient", "request", "chat"),
        Replacement(_BASE, "SyncAPIClient.request", _withhold),
        Replacement(_BASE, "AsyncAPIClient.request", _withhold),
        Patch(_BASE, "SyncAPIClient._sleep_for_retry", Stage.RETRY, name="back_off"),
        Patch(_BASE, "AsyncAPIClient._sleep_for_retry", Stage.RETRY, name="back_off"),
        Replacement("anthropic._streaming", "Stream.close", _close),
        Replacement("anthropic._streaming", "AsyncStream.close", _close),
        Replacement("anthropic._response", "APIResponse.parse", _parse),
        Replacement("anthropic._response", "AsyncAPIResponse.parse", _parse),
        Replacement(
            "anthropic._legacy_response", "LegacyAPIResponse.parse", _parse, optional=True
        ),
    )
