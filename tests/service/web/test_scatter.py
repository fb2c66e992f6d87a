"""Requests as points over time."""

import re

from latencytrace.service.web.drawing.scatter import scatter
from tests.support.builders.documents import request_document


def test_the_moments_below_a_single_request_differ() -> None:
    drawn = scatter([request_document()], None, lambda _: "/requests/1")

    moments = re.findall(r">(\d\d:\d\d:\d\d)(?: UTC)?<", drawn)
    assert len(set(moments)) == len(moments) > 1
