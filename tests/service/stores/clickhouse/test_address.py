"""Addresses of ClickHouse servers as users write them."""

import pytest

from latencytrace.errors import SettingsError
from latencytrace.service.stores.clickhouse.address import ServerAddress


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("clickhouse://db", ServerAddress(host="db", port=8123)),
        ("clickhouse://db/?secure=1", ServerAddress(host="db", port=8443, secure=True)),
        ("clickhouse://db?secure", ServerAddress(host="db", port=8443, secure=True)),
        ("clickhouse://db:81/traces", ServerAddress(host="db", port=81, database="traces")),
        (
            "clickhouse://bob:p%40ss%2Fw%3Ard@db/traces?secure=false&cluster=main-1",
            ServerAddress(
                host="db",
                port=8123,
                user="bob",
                password="p@ss/w:rd",
                database="traces",
                cluster="main-1",
            ),
        ),
        (
            "clickhouse://[::1]:8443/?secure=true&ca_cert=/etc/ca.pem",
            ServerAddress(host="::1", port=8443, secure=True, authorities="/etc/ca.pem"),
        ),
    ],
)
def test_an_address_is_read_as_clickhouses_clients_read_it(
    url: str, address: ServerAddress
) -> None:
    assert ServerAddress.parse(url) == address


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("clickhouse://", "names no server"),
        ("clickhouse://bob:hunter2@/x", "names no server"),
        ("clickhouse://bob:hunter2@db:9000", "native protocol.*8123"),
        ("clickhouse://bob:hunter2@db:9440?secure=1", "native protocol.*8443"),
        ("clickhouse://bob:hun/ter2@db", "is no address: .*%2F"),
        ("clickhouse://bob:12/hunter2@db/x", "is no address: .*%2F"),
        ("clickhouse://bob:?hunter2@db/x", "is no address: .*%2F"),
        ("clickhouse://bob:#hunter2@db/x", "is no address: .*%2F"),
        ("clickhouse://bob:hunter2@db/a-b", "cannot be the name of a database"),
        ("clickhouse://bob:hunter2@db/x;DROP", "cannot be the name of a database"),
        ("clickhouse://bob:hunter2@db/x?cluster=a'b", "cannot be the name of a cluster"),
        ("clickhouse://bob:hunter2@db/x?compress=1", "no option 'compress'.*secure"),
        ("clickhouse://bob:hunter2@db/x?secure=maybe", "neither 1 nor 0"),
    ],
)
def test_a_wrong_address_is_an_error_that_shows_no_password(url: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        ServerAddress.parse(url)

    assert "hun" not in str(caught.value)


def test_the_password_is_not_in_what_is_printed_of_an_address() -> None:
    address = ServerAddress.parse("clickhouse://bob:hunter2@db")

    assert "hunter2" not in repr(address)
    assert address.url == "http://db:8123"
