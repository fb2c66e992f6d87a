"""Calls of models that Ollama serves; it says what it did for how long, and so do we."""

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.toolkit.models.answer_form import AnswerForm
from latencytrace.agent.toolkit.models.model_api import ModelApi
from latencytrace.model.stage import Stage

_API = ModelApi(
    provider="ollama",
    url="self._client.base_url",
    form=AnswerForm(
        input_tokens=("prompt_eval_count",),
        output_tokens=("eval_count",),
        reasons=("done_reason",),
        output=("message.content", "message.thinking", "message.tool_calls", "response"),
        times=(
            (Stage.LOAD, "load_duration"),
            (Stage.PREFILL, "prompt_eval_duration"),
            (Stage.DECODE, "eval_duration"),
        ),
    ),
)
_PLACES = (  # the module's own functions are methods of a client that it makes at its import
    ("ollama._client", "Client AsyncClient"),
    ("ollama", ""),
)


class OllamaHook(Hook):
    """Times the methods of both clients, and the module's functions."""

    requires = ("ollama >= 0.4",)
    patches = tuple(
        call
        for module, owners in _PLACES
        for call in (
            *_API.calls(module, owners, "chat", "chat"),
            *_API.calls(module, owners, "generate", "text_completion"),
            *_API.calls(module, owners, "embed embeddings", "embeddings", Stage.EMBED),
        )
    )
