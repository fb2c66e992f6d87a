"""The service does not load at its start what most services never need."""

import subprocess
import sys

SCRIPT = """
import latencytrace.cli.commands.serve
import latencytrace.service.app
import latencytrace.service.stores.chdb.store
import latencytrace.service.stores.clickhouse.store
import sys
print('\\n'.join(sys.modules))
"""


def test_the_service_starts_without_the_libraries_of_tables() -> None:
    started = subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, check=True)

    loaded = set(started.stdout.decode().split())
    assert "latencytrace.service.web.views.backup" in loaded  # whose answers pyarrow compresses
    assert "latencytrace.service.answers.compare" in loaded
    assert loaded.isdisjoint({"pyarrow", "pandas"})
