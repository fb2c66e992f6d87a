"""The hook of Pillow, with images made on the spot."""

import io
from typing import Any

import pytest

from latencytrace.agent.hooks.media import PillowHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, in_request

Image = pytest.importorskip("PIL.Image")
PIL = pytest.importorskip("PIL")
pytest.importorskip("PIL.ImageFile")

HOOKS = (PillowHook,)


def encoded() -> io.BytesIO:
    """An image as a client sends it."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, "PNG")
    file.seek(0)
    return file


def test_an_image_is_decoded_once_and_then_changed(spans: Spans) -> None:
    file = encoded()

    def work() -> None:
        image = Image.open(file)
        image.load()
        image.load()  # there is nothing left to decode
        assert image.resize((4, 4)).convert("L").size == (4, 4)

    in_request(spans, work)

    assert spans.names == ["decode image", "resize", "convert", "request"]
    assert set(spans.stages[:3]) == {Stage.PREPROCESS}


def test_what_encodes_an_answer_is_postprocessing_with_all_that_it_needs(spans: Spans) -> None:
    file = encoded()

    in_request(spans, lambda: Image.open(file).save(io.BytesIO(), "JPEG"))

    assert (spans.names, spans.stages[0]) == (["save", "request"], Stage.POSTPROCESS)


def test_an_image_that_is_decoded_on_its_way_is_part_of_the_change(spans: Spans) -> None:
    file = encoded()

    in_request(spans, lambda: Image.open(file).resize((4, 4)))

    assert spans.names == ["resize", "request"]


def test_outside_of_requests_nothing_is_timed(spans: Spans) -> None:
    Image.open(encoded()).resize((4, 4)).save(io.BytesIO(), "PNG")

    assert spans.all == []


def test_a_broken_file_fails_as_ever(spans: Spans) -> None:
    broken = io.BytesIO(encoded().getvalue()[:50])

    def work() -> None:
        image: Any = Image.open(broken)
        with pytest.raises(OSError, match=r"truncated|broken"):
            image.load()

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] in {"OSError", "SyntaxError"}
