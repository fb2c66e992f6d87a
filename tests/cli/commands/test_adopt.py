"""What a dead service left is stored and attributed for it, once."""

import itertools
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from latencytrace.cli.commands import adopt as command
from latencytrace.errors import LatencytraceError
from latencytrace.model import Stage
from latencytrace.service.store import open_store
from tests.support.builders.spans.otlp_messages import MS, child, columns, otlp, root_lately
from tests.support.clickhouse.front import ClickHouseFront
from tests.support.servers.command_line import latencytrace
from tests.support.servers.running_service import RunningService

pytestmark = pytest.mark.long

TRACES = [f"{number:032x}" for number in range(1, 6)]
_databases = itertools.count(1)


@pytest.fixture
def url(front: ClickHouseFront) -> str:
    return front.url(f"adopted_{next(_databases)}")


def decode_ms(url: str, folder: Path) -> dict[str, float]:
    """How long each request that is stored decoded."""
    with closing(open_store(url, folder)) as store:
        found = store.written(TRACES)
    return {one.trace_id: one.ledger.get(Stage.DECODE, 0) / MS for one in found}


@pytest.fixture
def dead(url: str, tmp_path: Path) -> Path:
    """The folder of a service that was killed with spans in its journal."""
    folder = tmp_path / "dead"
    roots = [root_lately(trace_id) for trace_id in TRACES]
    with RunningService(folder, "--store", url) as service:
        # Of no trace the root comes, so that none is attributed before it dies.
        for root in roots:
            service.post(otlp(child(root, "b" * 16, Stage.DECODE, 0, 60))).raise_for_status()
        service.process.kill()
        service.process.wait()
    assert list((folder / "journal").glob("*.spans"))
    # Its peer has the roots.
    with closing(open_store(url, tmp_path / "peer")) as peer:
        peer.insert([columns(otlp(*roots))])
    return folder


def test_the_journal_of_a_dead_service_is_adopted_once(
    dead: Path, url: str, tmp_path: Path
) -> None:
    before = decode_ms(url, tmp_path / "asking")

    done = latencytrace("adopt", dead, "--store", url)
    after = decode_ms(url, tmp_path / "asking")
    again = latencytrace("adopt", dead, "--store", url)

    assert before == {}
    assert done.returncode == 0, done.stderr
    assert "5 spans of its journal stored, 5 ledgers written" in done.stdout
    assert after == dict.fromkeys(TRACES, 60)
    assert "0 spans of its journal stored, 0 ledgers written" in again.stdout
    assert decode_ms(url, tmp_path / "asking") == after
    assert not list((dead / "journal").glob("*.spans"))


def test_a_service_that_is_alive_is_not_adopted(url: str, tmp_path: Path) -> None:
    with RunningService(tmp_path / "alive", "--store", url) as service:
        done = latencytrace("adopt", tmp_path / "alive", "--store", url)
        assert service.client.get(f"{service.url}/readyz").is_success

    assert done.returncode == 1
    assert "belongs to process" in done.stderr


def test_of_a_lost_folder_its_id_is_enough_for_what_was_stored(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lost"
    with closing(open_store(url, folder)) as store:
        store.insert([columns(otlp(*map(root_lately, TRACES)))])
    lost = (folder / "writer").read_text().strip()
    shutil.rmtree(folder)

    done = latencytrace("adopt", lost, "--store", url)
    monkeypatch.setattr(command, "_SILENT_S", 86_400.0)  # however long that took

    assert done.returncode == 0, done.stderr
    assert "0 spans of its journal stored, 5 ledgers written" in done.stdout
    assert decode_ms(url, tmp_path / "asking").keys() == set(TRACES)
    with pytest.raises(LatencytraceError, match=rf"{lost} has written ledgers \d+ s ago: is it a"):
        command.adopt(lost, store=url)


def test_an_embedded_store_is_nobodys_to_adopt(tmp_path: Path) -> None:
    (tmp_path / "writer").write_text("a" * 32)
    nothing = latencytrace("adopt", tmp_path / "empty", "--store", "chdb")
    embedded = latencytrace("adopt", tmp_path, "--store", "chdb")

    assert "it has no file `writer`" in nothing.stderr
    assert "a store that is embedded is its folder's alone" in embedded.stderr
    assert nothing.returncode == embedded.returncode == 1
