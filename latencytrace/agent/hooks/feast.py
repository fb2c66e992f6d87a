"""Feast: the features, or documents, that a program or Feast's own server reads for a request."""

from collections.abc import Iterator, Sized
from typing import Any, Final

from latencytrace.agent.timing.hook import Arguments, Hook, HookAttributes, Patch
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_STORE: Final = "feast.feature_store"
_SERVER: Final = "feast.feature_server"


def _entities(arguments: Arguments) -> HookAttributes:
    """Count the entities that features are read for, given as rows or as columns."""
    rows: Any = arguments.get("entity_rows")
    if isinstance(rows, dict):
        rows = next(iter(rows.values()), ())
    found: HookAttributes = {semconv.DB_SYSTEM_NAME: "feast"}
    if isinstance(rows, Sized):
        found[semconv.DB_OPERATION_BATCH_SIZE] = len(rows)
    return found


def _store(_: Arguments) -> HookAttributes:
    return {semconv.DB_SYSTEM_NAME: "feast"}


def _both(method: str, stage: Stage, describe: Any = _store) -> Iterator[Patch]:
    """Time a method of a store, and its form for coroutines, which came later."""
    yield Patch(_STORE, f"FeatureStore.{method}", stage, describe, optional=True)
    yield Patch(_STORE, f"FeatureStore.{method}_async", stage, describe, optional=True)


class FeastHook(Hook):
    """Times what a feature store is asked; the statements of its databases lie within."""

    requires = ("feast >= 0.40",)
    patches = (
        *_both("get_online_features", Stage.RETRIEVE, _entities),
        Patch(
            _STORE, "FeatureStore.retrieve_online_documents", Stage.RETRIEVE, _store, optional=True
        ),
        Patch(
            _STORE,
            "FeatureStore.retrieve_online_documents_v2",
            Stage.RETRIEVE,
            _store,
            optional=True,
        ),
        *_both("push", Stage.DATABASE),
        *_both("write_to_online_store", Stage.DATABASE),
        Patch(_SERVER, "convert_response_to_dict", Stage.POSTPROCESS, optional=True),
    )
