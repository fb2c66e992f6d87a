"""The example application with a vector search that is slow while a file lies there.

uvicorn --app-dir examples/rag_chat tests.support.programs.slow_search_app:app
"""

import os
import time
from pathlib import Path

from qdrant_client.local.qdrant_local import QdrantLocal

SLOW_S = 12.0
_INCIDENT = Path(os.environ["SLOW_SEARCH"])
_search = QdrantLocal.query_points


def _slow_search(*arguments: object, **named: object) -> object:
    if _INCIDENT.exists():
        time.sleep(SLOW_S)
    return _search(*arguments, **named)


QdrantLocal.query_points = _slow_search

# The application itself knows nothing of this; --app-dir makes it importable.
from app import app  # type: ignore[import-not-found] # noqa: E402, F401 - see above
