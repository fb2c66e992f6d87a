"""Calls of models with `google-genai`: Gemini's API and Vertex AI's."""

from latencytrace.agent.timing.hook import Arguments, Hook
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.models.model_api import ModelApi, first_at
from latencytrace.model.stage import Stage

_MODELS = "google.genai.models"
_CLIENTS = "Models AsyncModels"


def _provider(arguments: Arguments) -> str:
    return "gcp.vertex_ai" if first_at(arguments, ("self._api_client.vertexai",)) else "gcp.gemini"


_API = ModelApi(
    provider=_provider,
    url="self._api_client._http_options.base_url",
    inputs=("contents",),
    form=AnswerForm(
        model=("model_version",),
        input_tokens=("usage_metadata.prompt_token_count",),
        output_tokens=("usage_metadata.candidates_token_count",),
        output_parts=("usage_metadata.thoughts_token_count",),
        cached_tokens=("usage_metadata.cached_content_token_count",),
        reasons=("candidates.finish_reason",),
        output=(
            "candidates.content.parts.text",
            "candidates.content.parts.function_call",
            "candidates.content.parts.inline_data",
        ),
    ),
)


class GoogleGenaiHook(Hook):
    """Times the inner calls: the outer ones contain the functions that a model has called."""

    requires = ("google-genai >= 1.0",)
    patches = (
        *_API.calls(
            _MODELS,
            _CLIENTS,
            "_generate_content _generate_content_stream",
            "generate_content",
        ),
        *_API.calls(_MODELS, _CLIENTS, "embed_content", "embeddings", Stage.EMBED),
        *_API.calls(_MODELS, _CLIENTS, "generate_images", "image_generation"),
    )
