"""Every link of the pages stays below the path of the proxy that shows them."""

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest

from tests.support.builders.spans.otlp_messages import otlp, root_lately
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

pytestmark = pytest.mark.long

PREFIX = "/tools/lt"
FOLLOWED = re.compile(r'(?:href|src|action|data-absolute)="([^"]*)"')
MOST_PAGES = 40  # each link of each is looked at
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location {prefix}/ {{ proxy_pass {service}/; proxy_set_header X-Forwarded-Prefix {prefix}; }}
  }}
}}
"""
Ask = Callable[[str], httpx.Response]


def crawled(ask: Ask) -> set[str]:
    """Follow every link, and check that none leaves the path; the addresses that were asked."""
    pending, seen = deque([f"{PREFIX}/"]), {f"{PREFIX}/"}
    kinds: set[tuple[str, frozenset[str]]] = set()
    pages = 0
    while pending and pages < MOST_PAGES:
        address = pending.popleft()
        answer = ask(address)
        assert answer.status_code < 400, (address, answer.status_code, answer.text[:500])
        links = [answer.headers["location"]] if answer.is_redirect else []
        if answer.headers.get("content-type", "").startswith("text/html"):
            pages += 1
            links += map(unescape, FOLLOWED.findall(answer.text))
        for link in links:
            target = urljoin(address, link)
            if link.startswith(("http:", "https:")):
                continue
            path = urlsplit(target).path
            assert path.startswith(f"{PREFIX}/"), (address, link)
            found = target.partition("#")[0]
            kind = path, frozenset(parse_qs(urlsplit(found).query))
            if kind not in kinds and not path.endswith(("/backup", "/login")):
                kinds.add(kind)  # others ask for the same with other values
                seen.add(found)
                pending.append(found)
    return seen


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("below") / "data"
    with RunningService(folder, "--root-path", PREFIX) as running:
        assert running.post(otlp(root_lately("a" * 32))).status_code == 200
        running.request("a" * 32)
        yield running


@pytest.mark.parametrize("stripped", [False, True], ids=["the proxy leaves it", "takes it off"])
def test_no_link_leaves_the_path(service: RunningService, *, stripped: bool) -> None:
    def ask(address: str) -> httpx.Response:
        return service.get(address.removeprefix(PREFIX) if stripped else address)

    seen = crawled(ask)

    paths = {urlsplit(one).path.removeprefix(PREFIX) for one in seen}
    assert {"/", "/breakdown", "/requests", "/tail", "/objectives", "/docs"} <= paths
    assert f"/requests/{'a' * 32}" in paths
    assert any(path.startswith("/static/") for path in paths)


def test_the_api_describes_itself_below_the_path(service: RunningService) -> None:
    described = service.get(f"{PREFIX}/openapi.json").json()

    assert described["servers"] == [{"url": PREFIX}]
    assert service.get(f"{PREFIX}/api/v1/services").json()["services"]
    assert service.get("/api/v1/services").json()["services"]


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("told", [PREFIX, "X-Forwarded-Prefix"])
def test_no_link_leaves_the_path_behind_nginx(
    tmp_path: Path, free_tcp_port: int, told: str
) -> None:
    with ExitStack() as opened:
        service = opened.enter_context(RunningService(tmp_path / "data", "--root-path", told))
        assert service.post(otlp(root_lately("b" * 32))).status_code == 200
        service.request("b" * 32)
        settings = tmp_path / "nginx.conf"
        settings.write_text(
            CONFIGURATION.format(
                folder=tmp_path, port=free_tcp_port, prefix=PREFIX, service=service.url
            )
        )
        nginx = opened.enter_context(
            subprocess.Popen([str(NGINX), "-p", str(tmp_path), "-c", str(settings)])
        )
        opened.callback(nginx.terminate)
        base = f"http://127.0.0.1:{free_tcp_port}"

        def is_there() -> bool:
            try:
                return service.client.get(f"{base}{PREFIX}/healthz").is_success
            except httpx.ConnectError:
                return False

        until(is_there, service.said)
        seen = crawled(lambda address: service.client.get(f"{base}{address}"))

    assert len(seen) > MOST_PAGES


def test_a_login_leads_back_below_the_path(tmp_path: Path) -> None:
    env = {"LATENCYTRACE_TOKEN": "secret-token", "LATENCYTRACE_PUBLIC_URL": "http://shop/tools/lt"}
    flags = ("--listen", "0.0.0.0:0", "--root-path", PREFIX)
    with RunningService(tmp_path / "data", *flags, env=env, ready=True) as service:
        page = service.get(f"{PREFIX}/breakdown?since=2h", {"accept": "text/html"})
        assert page.status_code == 401
        assert f'action="{PREFIX}/login"' in page.text
        form = {"token": "secret-token", "next": "/breakdown?since=2h"}
        answer = service.client.post(f"{service.url}{PREFIX}/login", data=form)

    assert answer.headers["location"] == f"{PREFIX}/breakdown?since=2h"
    assert f"path={PREFIX};" in answer.headers["set-cookie"].lower()
