"""Loads of every kind go by columns, and nothing that they carry makes shapes."""

from dataclasses import replace

import pytest

from latencytrace.model import Request, Stage
from latencytrace.service.ledger_table import each_request
from latencytrace.service.ledgers.attribution import Attributed, Attribution
from latencytrace.service.ledgers.column_attribution import ColumnAttribution
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.shapes import SHAPES
from tests.support.builders.zoo.loads import LOADS, RECORDED, Load, mixture
from tests.support.builders.zoo.posts import Posts
from tests.support.builders.zoo.taken import Taken
from tests.support.compiled import COMPILED
from tests.support.few import few

pytestmark = COMPILED

TRACES = 40
MIXTURES = {f"mixture {seed}": mixture(seed) for seed in range(6)}


def attributed(posts: Posts, traces: int, *, compiled: bool = True) -> tuple[Attributed, Taken]:
    columns = ColumnAttribution(is_used=compiled)
    taken = Taken(posts.checked(posts.made(traces)[0]))
    attribution = Attribution(Telemetry(), lambda _: False, columns=columns)
    return attribution.attributed({}, {}, taken.held), taken


def in_order(found: Attributed) -> list[Request]:
    every = each_request(found.tables)
    return sorted(every, key=lambda one: (one.trace_id, one.start_ns, one.span_id))


EACH = few(16, [*LOADS.values(), *MIXTURES.values()])


@pytest.mark.parametrize("load", EACH, ids=[*LOADS, *MIXTURES])
def test_traces_of_usual_loads_go_by_columns(load: Load) -> None:
    found, taken = attributed(Posts(load, 1), TRACES)

    assert len(taken.held) == TRACES
    assert found.spans == {}
    assert len(in_order(found)) == TRACES * load.services


@pytest.mark.parametrize("load", EACH, ids=[*LOADS, *MIXTURES])
def test_any_load_becomes_the_requests_that_objects_give(load: Load) -> None:
    by_columns, _ = attributed(Posts(load, 2), TRACES // 2)
    by_objects, _ = attributed(Posts(load, 2), TRACES // 2, compiled=False)

    assert in_order(by_columns) == in_order(by_objects)


@pytest.mark.parametrize("name", few(4, (one for one in RECORDED if one != "recorded: llm_d")))
def test_what_others_libraries_send_goes_by_columns(name: str) -> None:
    found, taken = attributed(Posts(RECORDED[name], 1), TRACES)

    assert len(taken.held) > 1
    assert found.spans == {}


def test_calls_that_were_tried_again_go_by_columns_too() -> None:
    load = replace(LOADS["2 % errors"], errors_ratio=0.2, retries_ratio=1.0, routes=1)
    found, _ = attributed(Posts(load, 3), TRACES)

    assert any(one.ledger.get(Stage.RETRY) for one in in_order(found))
    assert found.spans == {}


@pytest.mark.parametrize("unique", ["ids", "urls", "agents", "statements", "names", "keys"])
def test_new_values_make_no_new_shapes(unique: str) -> None:
    posts = Posts(LOADS[f"unique {unique}"], 4)
    attributed(posts, TRACES)
    before = len(SHAPES.latest.spans)

    attributed(posts, TRACES)

    assert len(SHAPES.latest.spans) == before


def test_a_fleet_has_as_many_shapes_as_one_process() -> None:
    attributed(Posts(LOADS["plain"], 5), 2 * TRACES)
    before = len(SHAPES.latest.spans)

    for name in ("5 000 pods", "200 pods, 400 routes, 60 models", "Kubernetes"):
        attributed(Posts(LOADS[name], 5), 2 * TRACES)

    assert len(SHAPES.latest.spans) - before <= 1
