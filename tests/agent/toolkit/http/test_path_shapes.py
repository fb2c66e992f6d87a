"""Paths that no framework explains have templates, and those are few."""

import uuid
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.toolkit.http.path_shapes import PathShapes

OK, NOT_FOUND = 200, 404
MOST = 256
words = st.sampled_from(
    ["users", "v1", "chat", "models", "gpt4", "index.html", "all-MiniLM-L6-v2"]
)
ids = st.one_of(
    st.integers(0, 10**20).map(str),
    st.uuids().map(str),
    st.uuids().map(lambda one: one.hex),
    st.binary(min_size=1)
    .map(lambda one: sha256(one).hexdigest()[:40])
    .filter(lambda one: any(character.isdigit() for character in one)),
    st.dates().map(str),
    st.emails(),
    st.sampled_from(
        ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "chatcmpl-9x8y7z6w5v4u", "msg_01XFDUDYJgAACzvnp"]
    ),
    st.text(min_size=49),
    st.text("äöü %=", min_size=1),
).filter(lambda one: "/" not in one)


@given(
    st.lists(st.one_of(words.map(lambda w: (w, w)), ids.map(lambda i: (i, "{id}"))), max_size=8)
)
def test_words_stay_and_ids_do_not(segments: list[tuple[str, str]]) -> None:
    path = "/" + "/".join(asked for asked, _ in segments)

    assert PathShapes().of(path) == "/" + "/".join(shown for _, shown in segments)


@given(st.lists(st.text("abcdefgh/", max_size=12).map(lambda path: f"/{path}"), max_size=600))
def test_there_are_never_more_templates_than_the_bound(paths: list[str]) -> None:
    shapes = PathShapes()

    assert len({shapes.route(path, OK) for path in paths}) <= MOST + 1


def test_words_of_which_there_are_too_many_are_names() -> None:
    shapes = PathShapes()

    found = [
        shapes.route(f"/users/{'abcdefghij'[n // 10]}{'klmnopqrst'[n % 10]}/pets", OK)
        for n in range(100)
    ]

    assert found[0] == "/users/ak/pets"
    assert found[-1] == "/users/{name}/pets"
    assert len(set(found)) <= 25


def test_a_path_that_was_not_found_makes_no_template() -> None:
    shapes = PathShapes()

    assert shapes.route("/wp-admin", NOT_FOUND) is None
    assert shapes.route("/users/7", OK) == "/users/{id}"
    assert shapes.route("/users/8", NOT_FOUND) == "/users/{id}"
    assert shapes.route("/wp-admin", NOT_FOUND) is None


def test_beyond_the_bound_what_is_new_is_unknown() -> None:
    shapes = PathShapes()
    letters = "abcdefghijklmnop"

    for first in letters:
        for second in letters:
            for third in letters:
                shapes.route(f"/{first}/{second}/{third}", OK)

    assert shapes.route("/a/a/a", OK) == "/a/a/a"
    assert shapes.route("/new", OK) is None
    assert shapes.of("/new") == "/{path}"


@pytest.mark.parametrize("path", ["/", "//", "/users/", "/users//7"])
def test_the_slashes_of_a_path_stay(path: str) -> None:
    assert PathShapes().of(path) == path.replace("7", "{id}")


def test_only_the_first_segments_are_told_apart() -> None:
    deep = "/".join("abcdefghijkl")

    assert PathShapes().of(f"/{deep}") == "/a/b/c/d/e/f/g/h/{id}"


def test_a_uuid_is_one() -> None:
    assert PathShapes().of(f"/jobs/{uuid.uuid4()}") == "/jobs/{id}"
