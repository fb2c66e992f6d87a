"""Addresses and texts without their passwords."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.model.texts.secrets import Secrets, parted, shown, text_shown, with_path

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://host:4318/v1/traces", "http://host:4318/v1/traces"),
        (f"http://user:{SECRET}@host:4318/v1", "http://…@host:4318/v1"),
        (f"https://{SECRET}@host", "https://…@host"),
        (f"http://host/v1?key={SECRET}&a=b", "http://host/v1?…"),
        (f"http://user:se/cr?et#{SECRET}@host", "http://…@host"),
        (f"user:{SECRET}@host:4317", "…@host:4317"),
    ],
)
def test_an_address_is_shown_without_user_and_query(address: str, said: str) -> None:
    assert shown(address) == said


@given(st.text(), st.text(min_size=8))
def test_nothing_of_a_password_is_shown_however_it_is_written(user: str, password: str) -> None:
    assert shown(f"http://{user}:{password}@host") == "http://…@host"


def test_a_text_is_shown_without_the_passwords_of_its_addresses() -> None:
    text = f"at http://u:{SECRET}@h:1/p, or A=u:{SECRET}@h: 'http://h/?k={SECRET}'"

    assert SECRET not in text_shown(text)


def test_user_and_password_are_sent_as_a_header() -> None:
    assert parted("http://us%40er:pa%3Ass@host:1/p?q=1") == (
        "http://host:1/p?q=1",
        {"authorization": "Basic dXNAZXI6cGE6c3M="},
    )


def test_a_path_comes_before_the_query() -> None:
    assert with_path("http://host:1/?key=1", "/v1/traces") == "http://host:1/v1/traces?key=1"


def test_what_a_server_repeats_of_a_secret_is_hidden() -> None:
    secrets = Secrets(f"http://u:{SECRET}@host/?k=abcdefgh", {"x-key": "Bearer 12345678"})

    said = secrets.hidden_in(f"bad key 12345678, {SECRET}, abcdefgh")

    assert said == "bad key …, …, …"
