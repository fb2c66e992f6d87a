"""Calls of models with `openai`: OpenAI's own, Azure's, and those of servers that speak alike."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch, Replacement
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.models.remote_model import (
    note_closed,
    request_model_attributes,
    timed_model_calls,
)
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_BASE = "openai._base_client"
_CALLS = (  # module, class, methods, `gen_ai.operation.name`, stage
    ("chat.completions.completions", "Completions", "create parse", "chat", Stage.REMOTE_MODEL),
    ("responses.responses", "Responses", "create parse", "chat", Stage.REMOTE_MODEL),
    ("completions", "Completions", "create", "text_completion", Stage.REMOTE_MODEL),
    ("embeddings", "Embeddings", "create", "embeddings", Stage.EMBED),
    ("images", "Images", "generate edit", "image_generation", Stage.REMOTE_MODEL),
    ("audio.speech", "Speech", "create", "speech", Stage.REMOTE_MODEL),
    ("audio.transcriptions", "Transcriptions", "create", "transcription", Stage.REMOTE_MODEL),
    ("audio.translations", "Translations", "create", "transcription", Stage.REMOTE_MODEL),
    ("moderations", "Moderations", "create", "", Stage.GUARDRAIL),
)
_OPTIONAL = ("responses.responses", "parse")  # younger than the oldest version


def _describe(arguments: Arguments) -> HookAttributes:
    client: Any = getattr(arguments["self"], "_client", None)
    azure = "Azure" in type(client).__name__
    noted: HookAttributes = {
        semconv.GEN_AI_PROVIDER_NAME: "azure.ai.openai" if azure else "openai",
        **request_model_attributes(arguments),
    }
    url = getattr(client, "base_url", None)
    if url is not None:
        noted[semconv.SERVER_ADDRESS] = url.host
        noted[semconv.SERVER_PORT] = url.port or (443 if url.scheme == "https" else 80)
    return noted


def _request(arguments: Arguments) -> object:
    return getattr(getattr(arguments["self"], "_client", None), "request", None)


def _calls(
    module: str, kind: str, methods: str, operation: str, stage: Stage
) -> tuple[Replacement, ...]:
    return tuple(
        Replacement(
            f"openai.resources.{module}",
            f"{prefix}{kind}.{method}",
            timed_model_calls(stage, operation, _describe, is_async=bool(prefix), below=_request),
            optional=module in _OPTIONAL or method in _OPTIONAL,
        )
        for prefix in ("", "Async")
        for method in methods.split()
    )


_close = after("closing a stream", note_closed)


class OpenaiHook(Hook):
    """Times the methods of both clients, and the waits before they try again."""

    requires = ("openai >= 1.30",)
    patches = (
        *(call for row in _CALLS for call in _calls(*row)),
        Replacement("openai._streaming", "Stream.close", _close),
        Replacement("openai._streaming", "AsyncStream.close", _close),
        Patch(_BASE, "SyncAPIClient._sleep_for_retry", Stage.RETRY, name="back_off"),
        Patch(_BASE, "AsyncAPIClient._sleep_for_retry", Stage.RETRY, name="back_off"),
    )
