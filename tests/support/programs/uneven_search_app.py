"""The example application with vector searches that wait, as over a network.

How long differs from search to search, and for one number of passages it is several times as
long: what a comparison must find, far beyond whatever a busy machine adds.

uvicorn --app-dir examples/rag_chat tests.support.programs.uneven_search_app:app
"""

import random
import time
from math import log

from qdrant_client.local.qdrant_local import QdrantLocal

USUAL, SLOW = 4, 5  # passages; of any other number a search does not wait
WAITS_S = {USUAL: 0.3, SLOW: 1.2}  # medians
_SPREAD = 0.6
_chance = random.Random(20)
_search = QdrantLocal.query_points


def _waiting_search(*arguments: object, limit: int, **named: object) -> object:
    if limit in WAITS_S:
        time.sleep(_chance.lognormvariate(log(WAITS_S[limit]), _SPREAD))
    return _search(*arguments, limit=limit, **named)


QdrantLocal.query_points = _waiting_search

# The application itself knows nothing of this; --app-dir makes it importable.
from app import app  # type: ignore[import-not-found] # noqa: E402, F401 - see above
