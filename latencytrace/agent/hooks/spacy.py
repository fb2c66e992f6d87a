"""Pipelines of spaCy over texts, within a request."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_MODULE = "spacy.language"


def _describe(arguments: Arguments) -> HookAttributes:
    """Note the name of the pipeline, as its package is called."""
    nlp: Any = arguments["self"]
    name = getattr(nlp, "_meta", {}).get("name")
    return {semconv.GEN_AI_REQUEST_MODEL: f"{nlp.lang}_{name}" if name else str(nlp.lang)}


class SpacyHook(Hook):
    """Times whole texts, one by one or many; making tokens of them is apart."""

    requires = ("spacy >= 3.4",)
    patches = tuple(
        first_of_each_span(
            Patch(_MODULE, f"Language.{method}", stage, _describe, name=name, within=True)
        )
        for method, stage, name in (
            ("__call__", Stage.FORWARD, "nlp"),
            ("pipe", Stage.FORWARD, "nlp.pipe"),
            ("make_doc", Stage.TOKENIZE, "make_doc"),
        )
    )
