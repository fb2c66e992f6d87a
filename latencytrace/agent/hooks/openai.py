"""Calls of models with `openai`: OpenAI's own, Azure's, and those of servers that speak alike."""

from latencytrace.agent.timing.hook import Arguments, Hook, Patch, Replacement
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.models.answer_form import OPENAI
from latencytrace.agent.toolkit.models.model_api import ModelApi
from latencytrace.agent.toolkit.models.remote_model import note_closed, note_parsed
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
_OPTIONAL = ("openai.resources.responses.responses", "parse")  # younger than the oldest version


def _provider(arguments: Arguments) -> str:
    client = getattr(arguments["self"], "_client", None)
    return "azure.ai.openai" if "Azure" in type(client).__name__ else "openai"


_API = ModelApi(provider=_provider, form=OPENAI, below="self._client.request")
_close = after("closing a stream", note_closed)
_parse = after("parsing a raw answer", note_parsed)


class OpenaiHook(Hook):
    """Times the methods of both clients, and the waits before they try again."""

    requires = ("openai >= 1.30",)
    patches = (
        *(
            call
            for module, kind, methods, operation, stage in _CALLS
            for call in _API.calls(
                f"openai.resources.{module}",
                f"{kind} Async{kind}",
                methods,
                operation,
                stage,
                optional=_OPTIONAL,
            )
        ),
        Replacement("openai._streaming", "Stream.close", _close),
        Replacement("openai._streaming", "AsyncStream.close", _close),
        Replacement("openai._legacy_response", "LegacyAPIResponse.parse", _parse),
        Replacement("openai._response", "APIResponse.parse", _parse),
        Replacement("openai._response", "AsyncAPIResponse.parse", _parse),
        Patch(_BASE, "SyncAPIClient._sleep_for_retry", Stage.RETRY, name="back_off"),
        Patch(_BASE, "AsyncAPIClient._sleep_for_retry", Stage.RETRY, name="back_off"),
    )
