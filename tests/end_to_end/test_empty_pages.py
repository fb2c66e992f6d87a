"""The pages of a service that has not received anything, and of filters that match nothing."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from tests.support.servers.running_service import RunningService


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("empty") / "data") as running:
        yield running


@pytest.mark.parametrize(
    "path",
    [
        "/breakdown?export=durations.svg",
        "/breakdown?export=timeline.svg",
        "/requests?export=requests.svg",
        "/requests?service=nobody&since=2h&export=requests.svg",
    ],
)
def test_a_picture_of_no_request_is_a_picture(empty: RunningService, path: str) -> None:
    answer = empty.get(path)

    assert answer.status_code == 200, answer.text
    assert ET.fromstring(answer.text).tag.endswith("svg")  # noqa: S314 - ours


@pytest.mark.parametrize(
    "path", ["/breakdown?export=durations.svg", "/requests?export=requests.svg"]
)
def test_a_picture_of_no_request_says_so(empty: RunningService, path: str) -> None:
    assert "No request matches." in empty.get(path).text


@pytest.mark.parametrize("path", ["/whatif", "/compare"])
def test_a_page_that_was_asked_nothing_offers_no_file(empty: RunningService, path: str) -> None:
    page = empty.get(path, {"accept": "text/html"})

    assert page.status_code == 200
    assert "download=" not in page.text
