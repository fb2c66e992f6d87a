"""The hook of Feast, with a store of its own in SQLite."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from latencytrace.agent.hooks.feast import FeastHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans

feast = pytest.importorskip("feast")
pandas = pytest.importorskip("pandas")

HOOKS = (FeastHook,)
SETTINGS = (
    "{project: shop, registry: registry.db, provider: local,"
    " online_store: {type: sqlite, path: online.db}, entity_key_serialization_version: 3}"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # Feast's own, of what it uses


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEAST_USAGE", "False")
    Path("feature_store.yaml").write_text(SETTINGS)
    now = datetime.now(UTC)
    rows = pandas.DataFrame({"driver": [1, 2], "trips": [3, 4], "at": [now, now]})
    rows.to_parquet("drivers.parquet")
    driver = feast.Entity(name="driver", join_keys=["driver"])
    drivers = feast.FeatureView(
        name="drivers",
        entities=[driver],
        schema=[feast.Field(name="trips", dtype=feast.types.Int64)],
        source=feast.FileSource(path="drivers.parquet", timestamp_field="at"),
        ttl=timedelta(days=1),
    )
    store = feast.FeatureStore(".")
    store.apply([driver, drivers])
    store.write_to_online_store("drivers", rows)
    return store


def test_features_that_are_read_are_one_span(spans: Spans, store: Any) -> None:
    spans.all.clear()

    found = store.get_online_features(["drivers:trips"], [{"driver": 1}, {"driver": 2}])

    assert found.to_dict()["trips"] == [3, 4]
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.RETRIEVE,
        semconv.DB_SYSTEM_NAME: "feast",
        semconv.DB_OPERATION_BATCH_SIZE: 2,
    }


def test_columns_of_entities_are_counted_and_coroutines_timed(spans: Spans, store: Any) -> None:
    spans.all.clear()

    asked = {"driver": [1, 2]}
    with pytest.raises(NotImplementedError):  # SQLite has no such form
        asyncio.run(store.get_online_features_async(["drivers:trips"], asked))

    assert spans.only.attributes[semconv.DB_OPERATION_BATCH_SIZE] == 2
    assert spans.only.attributes[semconv.ERROR_TYPE] == "NotImplementedError"


def test_what_is_written_is_the_databases(spans: Spans, store: Any) -> None:
    assert spans.stages[-1] == Stage.DATABASE
    assert spans.names[-1] == "write_to_online_store"
