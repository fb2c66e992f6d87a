"""Tables and pictures of pages as files."""

import csv
import io
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from latencytrace.errors import QuestionError
from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS
from latencytrace.service.web.drawing.bars import segment_bar
from latencytrace.service.web.drawing.heat_map import heat_map
from latencytrace.service.web.drawing.stages_over_time import stages_over_time
from latencytrace.service.web.pages.exports import Export, answer, csv_table, standalone

NAMESPACE = "{http://www.w3.org/2000/svg}"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_inner_documents_are_columns_of_their_own_and_unknown_is_empty() -> None:
    rows = table(csv_table([{"stage": "decode", "p50": {"a": 1, "b": None}}, {"stage": "queue"}]))

    assert rows == [
        {"stage": "decode", "p50.a": "1", "p50.b": ""},
        {"stage": "queue", "p50.a": "", "p50.b": ""},
    ]


@pytest.mark.parametrize("name", ["=1+1", "@cmd", "+1", "-1", "\ta", "'=1"])
def test_no_cell_and_no_column_is_a_formula(name: str) -> None:
    (row,) = table(csv_table([{"route": name, "where": {name: 1}, name: 2}]))

    assert row["route"] == f"'{name}"
    assert all(column in {"route", f"where.{name}", f"'{name}"} for column in row)


def test_lists_are_one_cell() -> None:
    (row,) = table(csv_table([{"hooked": ["fastapi", "redis"], "not_hooked": []}]))

    assert row == {"hooked": '["fastapi","redis"]', "not_hooked": ""}


def drawn(svg: Markup) -> ET.Element:
    """Read a picture as a file, as any program does."""
    return ET.fromstring(standalone(svg))  # noqa: S314 - our own


def test_a_picture_brings_its_colours_and_names_them() -> None:
    root = drawn(segment_bar([(Stage.RETRIEVE, 0, 10, ""), (Stage.DECODE, 10, 40, "")], 40))

    styles = root.findtext(f"{NAMESPACE}style") or ""
    assert f".s-retrieve{{fill:{STAGE_COLOURS[Stage.RETRIEVE].light}}}" in styles
    assert [text.text for text in root.iter(f"{NAMESPACE}text")] == ["retrieve", "decode"]
    assert root.get("viewBox") == "0 0 1000 44"
    assert (root.get("width"), root.get("height")) == ("1000", "44")


def test_a_picture_has_nothing_that_only_a_page_needs() -> None:
    link = '<svg class="chart" viewBox="0 0 9 8" data-scale="{}" tabindex="0"><a href="/x"/></svg>'
    root = drawn(Markup(link))  # noqa: S704 - ours

    assert not [one for one in root.iter() if one.tag == f"{NAMESPACE}a"]
    assert set(root.keys()) == {"width", "height", "viewBox"}


def test_pictures_of_cohorts_are_well_formed() -> None:
    heat = heat_map(
        {
            "since": "0",
            "until": "60000000000",
            "column_ns": 10**9,
            "cells": [
                {
                    "since": "0",
                    "until": "1000000000",
                    "at_least_ns": 900,
                    "at_most_ns": 1100,
                    "column": 0,
                    "row": 40,
                    "requests": 3,
                }
            ],
        }
    )
    over_time = stages_over_time(
        {
            "since": "0",
            "until": "60000000000",
            "column_ns": 10**9,
            "columns": [
                {
                    "since": "3000000000",
                    "until": "4000000000",
                    "requests": 2,
                    "mean_ns": 40,
                    "stages": {Stage.QUEUE: 10, Stage.DECODE: 30},
                }
            ],
        }
    )

    assert [one.get("class") for one in drawn(heat).iter(f"{NAMESPACE}path")][-1] == "h9"
    stacked = {
        one.get("class"): one.get("d")
        for one in drawn(over_time).iter(f"{NAMESPACE}path")
        if str(one.get("class")).startswith("s-")
    }
    assert list(stacked) == ["s-queue", "s-decode"]
    queue, decode = (str(path) for path in stacked.values())
    assert queue.split("V")[1].split("H")[0] == decode.split("V")[0].split(" ")[1]  # it lies on it


def test_a_file_that_the_page_has_not_is_named_with_those_it_has() -> None:
    with pytest.raises(QuestionError, match=r"'other\.csv' is none of the files here: use a\.csv"):
        answer([Export("a.csv", list)], "other.csv")


def test_a_file_is_saved_and_not_opened() -> None:
    found = answer([Export("a b.csv", lambda: [{"x": 1}])], "a b.csv")

    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.csv"
    assert found.headers["content-type"].startswith("text/csv")
    assert found.body == b"x\r\n1\r\n"
