"""The service does not load at its start what most services never need."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import latencytrace.cli.commands.serve
import latencytrace.service.app
import latencytrace.service.stores.chdb.store
import latencytrace.service.stores.clickhouse.store
import pathlib
import sys
store = latencytrace.service.stores.chdb.store.ChdbStore.open(pathlib.Path(sys.argv[1]))
assert list(store.services()) == []
store.close()
print('\\n'.join(sys.modules))
"""


def test_the_service_starts_without_the_libraries_of_tables(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "data")]
    started = subprocess.run(command, stdout=subprocess.PIPE, check=True)

    loaded = set(started.stdout.decode().split())
    assert "latencytrace.service.web.views.backup" in loaded  # whose answers pyarrow compresses
    assert "latencytrace.service.answers.compare" in loaded
    assert loaded.isdisjoint({"pyarrow", "pandas"})
