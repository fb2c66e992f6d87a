"""Posts that are packed, and TLS with certificates of one's own."""

import gzip
import ssl
import subprocess
from pathlib import Path

import pytest

from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.transport import TransportOptions
from latencytrace.settings import agent_settings
from tests.support.servers.recording import RecordingServer
from tests.support.waiting import PATIENCE_S


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of 127.0.0.1 that nobody else trusts, and its key."""
    held, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", key, "-out", held, "-days", "2", "-subj", "/CN=collector"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return str(held), str(key)


def test_a_post_is_packed_where_it_is_asked_for() -> None:
    with RecordingServer() as server:
        sender = HttpSender(server.url, {}, PATIENCE_S, TransportOptions(gzip=True))
        answer = sender.send(b"spans" * 100)
        sender.close()

    (post,) = server.received
    assert (answer.status, post.headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(post.body) == b"spans" * 100
    assert len(post.body) < 100


def test_a_receiver_is_known_by_an_authority_of_ones_own_and_knows_us(tmp_path: Path) -> None:
    held, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(held, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(held)
    with RecordingServer(tls=context) as server:
        trusting = HttpSender(server.url, {}, PATIENCE_S, TransportOptions(False, held, held, key))  # noqa: FBT003
        doubting = HttpSender(server.url, {}, PATIENCE_S)

        answer = trusting.send(b"spans")
        with pytest.raises(ssl.SSLCertVerificationError):
            doubting.send(b"spans")
        trusting.close()

    assert answer.status == 200


def test_opentelemetrys_variables_say_how_bytes_go() -> None:
    settings = agent_settings(
        environ={
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "client.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY": "key.pem",
        }
    )

    assert settings.gzip
    assert settings.tls_files == ("ca.pem", "client.pem", "key.pem")
