"""The words that `latencytrace.model` hands out, each from the file that it is in."""

import subprocess
import sys

import pytest

from latencytrace import model
from tests.support.over_all import over_all


@over_all("name", model.__all__)
def test_every_word_can_be_imported_from_the_model(name: str) -> None:
    assert getattr(model, name) is not None


def test_a_word_that_there_is_not_is_named() -> None:
    with pytest.raises(AttributeError, match=r"'latencytrace\.model' has no attribute 'Spam'"):
        model.Spam  # type: ignore[attr-defined] # noqa: B018 - that it raises is the point


def test_a_words_file_is_read_when_the_word_is_first_asked_for() -> None:
    code = (
        "import sys\n"
        "import latencytrace.model as model\n"
        "before = 'latencytrace.model.span' in sys.modules\n"
        "model.Span\n"
        "print(before, 'latencytrace.model.span' in sys.modules,"
        " 'latencytrace.model.objective' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.split() == ["False", "True", "False"]
