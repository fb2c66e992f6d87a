"""A PostgreSQL server of a test's own, where one is installed."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until

USER = "postgres"  # in whose name root must start it


def program(name: str) -> str | None:
    """Where a program of PostgreSQL's lies; None: it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(found[-1]) if found else None)


@contextmanager
def serving_postgres() -> Iterator[str]:
    """What clients connect with, over a socket in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        data = f"{folder}/data"
        user = USER if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(folder, user)
        made = [str(program("initdb")), "-D", data, "-U", "tester", "-A", "trust", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, user=user, cwd=folder)
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder]
        server = subprocess.Popen(
            [str(program("postgres")), "-D", data, *options],
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        asked = [str(program("pg_isready")), "-q", "-h", folder]
        try:
            until(lambda: subprocess.run(asked, check=False).returncode == 0)
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(40)
