"""Calls of models with `mistralai`."""

from dataclasses import replace

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.models.answer_form import OPENAI
from latencytrace.agent.toolkit.models.model_api import ModelApi, announced_waits
from latencytrace.agent.toolkit.models.remote_model import note_closed
from latencytrace.model.stage import Stage

_API = ModelApi(
    provider="mistral_ai",
    url="self.sdk_configuration.server_url",
    inputs=("inputs",),
    form=replace(OPENAI, iterator="generator", chunk="data"),
)
_GENERATES = "complete stream complete_async stream_async"
_STREAMS = "mistralai.client.utils.eventstreaming"
_close = after("closing a stream", note_closed)


class MistralaiHook(Hook):
    """Times the methods of the one client, and the waits before it tries again."""

    requires = ("mistralai >= 3.0",)
    patches = (
        *_API.calls("mistralai.client.chat", "Chat", _GENERATES, "chat"),
        *_API.calls("mistralai.client.fim", "Fim", _GENERATES, "text_completion"),
        *_API.calls(
            "mistralai.client.embeddings",
            "Embeddings",
            "create create_async",
            "embeddings",
            Stage.EMBED,
        ),
        *_API.calls(
            "mistralai.client.classifiers",
            "Classifiers",
            "moderate moderate_async moderate_chat moderate_chat_async",
            "",
            Stage.GUARDRAIL,
        ),
        Replacement(_STREAMS, "EventStream.close", _close),
        Replacement(_STREAMS, "EventStreamAsync.close", _close),
        Replacement(
            "mistralai.client.utils.retries", "_get_sleep_interval", announced_waits(float)
        ),
    )
