"""What a dead service left is adopted as a whole, or it is said that it is not."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from latencytrace.errors import StoreError
from latencytrace.service import app
from latencytrace.service.app import Adopted, take_over
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.store import Store, open_store
from latencytrace.service.stores.chdb.store import ChdbStore
from latencytrace.settings import ServiceSettings, service_settings
from tests.support.builders.spans.otlp_messages import columns, otlp, root_lately

pytestmark = pytest.mark.long

SPANS = 5


@pytest.fixture
def dead(tmp_path: Path) -> ServiceSettings:
    """The settings of a service that died with spans in its journal."""
    folder = tmp_path / "dead"
    with closing(ChdbStore.open(folder)):
        journal = Journal(folder / "journal")
        for number in range(1, SPANS + 1):
            journal.append(columns(otlp(root_lately(f"{number:032x}"))).packed())
        journal.rotate()
    return service_settings(folder=folder, store="chdb")


def left(settings: ServiceSettings) -> list[str]:
    """What is in the journal."""
    return sorted(path.name for path in (settings.folder / "journal").iterdir())


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have every store refuse one of the things that are asked of it, and answer all others."""

    def refused(*_: object, **__: object) -> None:
        raise StoreError("cannot write in readonly mode")

    def having(method: str) -> None:
        def opened(engine: str, folder: Path) -> Store:
            store = open_store(engine, folder)
            monkeypatch.setattr(store, method, refused)
            return store

        monkeypatch.setattr(app, "open_store", opened)

    return having


@pytest.mark.parametrize("method", ["insert", "write"])
def test_a_store_that_answers_and_takes_nothing_is_said(
    dead: ServiceSettings,
    refuse: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    refuse(method)
    with pytest.raises(StoreError, match="cannot write in readonly mode"):
        take_over(dead)

    monkeypatch.setattr(app, "open_store", open_store)
    again = take_over(dead)

    assert again.requests == SPANS
    assert left(dead) == []
    assert take_over(dead) == Adopted()


def test_spans_are_counted_once(dead: ServiceSettings) -> None:
    assert take_over(dead) == Adopted(spans=SPANS, requests=SPANS)


def test_a_file_of_the_journal_that_is_damaged_is_said(dead: ServiceSettings) -> None:
    [file] = (dead.folder / "journal").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    with pytest.raises(StoreError, match="damaged keeps what cannot be read"):
        take_over(dead)

    assert left(dead) == [file.with_suffix(".damaged").name]
    assert take_over(dead) == Adopted()


def test_a_file_of_the_journal_that_cannot_be_read_is_said(
    dead: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("latencytrace.service.ingest.journal.read_private", unreadable)
    [file] = left(dead)

    with pytest.raises(StoreError, match="is not stored as a whole"):
        take_over(dead)

    assert left(dead) == [file]
