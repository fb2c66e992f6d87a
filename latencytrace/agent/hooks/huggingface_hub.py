"""Calls of models with `huggingface_hub`'s `InferenceClient`, whatever the provider."""

from dataclasses import replace

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.answer_form import OPENAI
from latencytrace.agent.toolkit.models.model_api import ModelApi
from latencytrace.model.stage import Stage

_API = ModelApi(
    provider="huggingface",
    url="self.model",  # an address where a server of one's own is asked
    model=("model", "self.model"),
    inputs=("text",),
    form=replace(
        OPENAI,
        iterator=None,
        output_tokens=(*OPENAI.output_tokens, "details.generated_tokens"),
        reasons=(*OPENAI.reasons, "details.finish_reason"),
        output=("choices.delta.content", "choices.delta.tool_calls", "token.text"),
    ),
)
_CLIENTS = (
    ("huggingface_hub.inference._client", "InferenceClient"),
    ("huggingface_hub.inference._generated._async_client", "AsyncInferenceClient"),
)
_OTHERS = """
    text_classification zero_shot_classification token_classification fill_mask question_answering
    summarization translation image_classification image_to_text
"""
_CALLS = (
    ("chat_completion", "chat", Stage.REMOTE_MODEL),
    ("text_generation", "text_completion", Stage.REMOTE_MODEL),
    ("feature_extraction sentence_similarity", "embeddings", Stage.EMBED),
    ("text_to_image image_to_image", "image_generation", Stage.REMOTE_MODEL),
    ("automatic_speech_recognition", "transcription", Stage.REMOTE_MODEL),
    ("text_to_speech", "speech", Stage.REMOTE_MODEL),
    (_OTHERS, "", Stage.REMOTE_MODEL),
)


class HuggingfaceHubHook(Hook):
    """Times the tasks of both clients."""

    requires = ("huggingface_hub >= 0.28",)
    patches = tuple(
        call
        for module, owner in _CLIENTS
        for methods, operation, stage in _CALLS
        for call in _API.calls(module, owner, methods, operation, stage)
    )
