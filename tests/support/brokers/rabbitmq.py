"""A RabbitMQ server of a test's own, installed or unpacked by `make test-every-hook`."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_connection

from tests.support.servers.ports import free_port
from tests.support.servers.prometheus_programs import program
from tests.support.waiting import until


@contextmanager
def rabbitmq_server(folder: Path) -> Iterator[str]:
    """Serve on loopback; yields the address, with the user that there is at first."""
    port, names_port = free_port(), free_port()
    told = {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names_port),
        "RABBITMQ_NODENAME": "tested@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    # Erlang's directory of nodes, which otherwise it would start and leave behind.
    names = subprocess.Popen([program("epmd"), "-port", str(names_port)], env=told)
    server = subprocess.Popen(
        [program("rabbitmq-server")], env=told, stdout=subprocess.DEVNULL, cwd=folder
    )
    try:
        until(lambda: _answers(port), patience_s=100)
        yield f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    finally:
        for process in (server, names):
            process.terminate()
            process.wait(40)


def _answers(port: int) -> bool:
    """Return whether it takes a connection and answers what it cannot read."""
    try:
        with closing(create_connection(("127.0.0.1", port), timeout=5)) as one:
            one.sendall(b"AMQP\0\0\0\0")
            return bool(one.recv(8))
    except OSError:
        return False
