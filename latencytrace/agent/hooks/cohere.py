"""Calls of models with `cohere`, by both versions of its API."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.models.model_api import ModelApi, announced_waits
from latencytrace.model.stage import Stage

_COUNTS = (  # of chats; of embeddings and the first version; of the last chunks of both
    "usage.tokens",
    "delta.usage.tokens",
    "meta.billed_units",
    "response.meta.billed_units",
)
_API = ModelApi(
    provider="cohere",
    url="self._raw_client._client_wrapper._base_url",
    inputs=("texts", "inputs", "images", "documents"),
    form=AnswerForm(
        model=(),
        input_tokens=tuple(f"{counts}.input_tokens" for counts in _COUNTS),
        output_tokens=tuple(f"{counts}.output_tokens" for counts in _COUNTS),
        reasons=("finish_reason", "delta.finish_reason"),
        output=(
            "delta.message.content.text",
            "delta.message.tool_calls",
            "delta.message.tool_plan",
            "text",
        ),
    ),
)
_CLIENTS = (
    ("cohere.v2.client", "V2Client AsyncV2Client"),
    ("cohere.base_client", "BaseCohere AsyncBaseCohere"),
)
_HTTP = "cohere.core.http_client"


class CohereHook(Hook):
    """Times the methods of all clients, and the waits before they try again."""

    requires = ("cohere >= 5.13",)
    patches = (
        *(
            call
            for module, owners in _CLIENTS
            for call in (
                *_API.calls(module, owners, "chat chat_stream", "chat"),
                *_API.calls(module, owners, "embed", "embeddings", Stage.EMBED),
                *_API.calls(module, owners, "rerank", "", Stage.RERANK),
            )
        ),
        Replacement(_HTTP, "_retry_timeout", announced_waits(float)),
        Replacement(_HTTP, "_retry_timeout_from_retries", announced_waits(float), optional=True),
    )
