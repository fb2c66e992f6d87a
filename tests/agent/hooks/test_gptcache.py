"""The hook of GPTCache, with a map as the cache and a function as the model."""

from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.gptcache import GptcacheHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, attribute_text, in_request

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
gptcache = pytest.importorskip("gptcache")
adapter = pytest.importorskip("gptcache.adapter.adapter")
factory = pytest.importorskip("gptcache.manager.factory")
pre = pytest.importorskip("gptcache.processor.pre")

HOOKS = (GptcacheHook,)


def test_a_search_and_the_keeping_of_an_answer_are_one_span(spans: Spans, tmp_path: Path) -> None:
    cache = gptcache.Cache()
    cache.init(
        pre_embedding_func=pre.get_prompt,
        data_manager=factory.manager_factory("map", data_dir=str(tmp_path)),
    )
    asked: list[str] = []

    def model(prompt: str, **_: Any) -> str:
        asked.append(prompt)
        return "an answer"

    def answer() -> Any:
        return adapter.adapt(
            model,
            lambda found: found,
            lambda made, keep, *_, **__: (keep(made), made)[1],
            prompt="a secret",
            cache_obj=cache,
        )

    in_request(spans, lambda: [answer() for _ in range(2)])

    assert asked == ["a secret"]  # the second was found
    assert (spans.names[:2], set(spans.stages[:2])) == (["cache", "cache"], {Stage.CACHE})
    assert "secret" not in attribute_text(spans)
