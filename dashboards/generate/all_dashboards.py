"""Every dashboard by the path of its file: a new one is a file here and a line below."""

import json
from collections.abc import Mapping

from dashboards.generate.dashboard import Json
from dashboards.generate.engines import ENGINES
from dashboards.generate.gpus import GPUS
from dashboards.generate.health import HEALTH
from dashboards.generate.objectives import OBJECTIVES
from dashboards.generate.overview import OVERVIEW
from dashboards.generate.tail import TAIL
from dashboards.generate.tail_clickhouse import TAIL_CLICKHOUSE

DASHBOARDS: Mapping[str, Json] = {
    "overview": OVERVIEW,
    "tail": TAIL,
    "objectives": OBJECTIVES,
    "engines": ENGINES,
    "gpus": GPUS,
    "health": HEALTH,
    "clickhouse/tail": TAIL_CLICKHOUSE,
}


def file_text(dashboard: Json) -> str:
    """What the file of a dashboard holds."""
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"
