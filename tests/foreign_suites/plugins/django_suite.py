"""A plugin of pytest that does for Django's own tests what its `runtests.py` does."""

import importlib
import os
import sys
import tempfile
from pathlib import Path

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Set Django up with the applications of the tests asked for, and make their databases."""
    sys.path.insert(0, str(Path.cwd()))
    folder = tempfile.TemporaryDirectory(prefix="django-")
    session.config.add_cleanup(folder.cleanup)
    os.environ["TMPDIR"] = folder.name
    os.environ["DJANGO_SETTINGS_MODULE"] = "test_sqlite"
    labels = {argument.split("::")[0].split("/")[0] for argument in session.config.args}
    importlib.import_module("runtests").setup_run_tests(0, None, None, sorted(labels))
    utils = importlib.import_module("django.test.utils")
    settings = importlib.import_module("django.conf").settings
    settings.TEST_RUNNER = "django.test.runner.DiscoverRunner"
    runner = utils.get_runner(settings)(verbosity=0, interactive=False)
    runner.setup_test_environment()
    runner.setup_databases()
