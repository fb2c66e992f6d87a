"""Every link of the pages stays below the path of the proxy that shows them."""

import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from latencytrace.service.web.pages.rendering import NAVIGATION
from tests.support.builders.spans.otlp_messages import otlp, root_lately
from tests.support.servers.browser import opened
from tests.support.servers.ports import free_port
from tests.support.servers.prometheus_programs import program
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

pytestmark = pytest.mark.long

PREFIX = "/tools/lt"
FOLLOWED = re.compile(r'(?:href|src|action|data-absolute)="([^"]*)"')
MOST_FORMS = 4  # of a page, each with other parameters
PAGES = (*(link.path for link in NAVIGATION), "/docs", "/openapi.json", "/metrics")
DOCUMENTED = Path(__file__).parents[2] / "docs/pages/behind-a-proxy.md"
FORWARDED = "X-Forwarded-Prefix"
TOKEN = "secret-token"
CONFIGURATION = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; {location} }}
}}
"""
Ask = Callable[[str], httpx.Response]


def crawled(ask: Ask) -> set[str]:
    """Follow every link, and check that none leaves the path; the addresses that were asked.

    Of a page with parameters some forms are asked for; each link of each is looked at.
    """
    pending, seen = deque([f"{PREFIX}/"]), {f"{PREFIX}/"}
    forms: dict[str, set[frozenset[str]]] = {}
    while pending:
        address = pending.popleft()
        answer = ask(address)
        assert answer.status_code < 400, (address, answer.status_code, answer.text[:500])
        links = [answer.headers["location"]] if answer.is_redirect else []
        if answer.headers.get("content-type", "").startswith("text/html"):
            links += map(unescape, FOLLOWED.findall(answer.text))
        for link in links:
            target = urljoin(address, link)
            if link.startswith(("http:", "https:")):
                continue
            path = urlsplit(target).path
            assert path.startswith(f"{PREFIX}/"), (address, link)
            found = target.partition("#")[0]
            known, form = forms.setdefault(path, set()), frozenset(parse_qs(urlsplit(found).query))
            if form in known or len(known) == MOST_FORMS or path.endswith(("/backup", "/login")):
                continue  # others ask for the same with other values
            known.add(form)
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
    assert set(PAGES) <= paths
    assert f"/requests/{'a' * 32}" in paths
    assert any(path.startswith("/static/") for path in paths)


def test_the_api_describes_itself_below_the_path(service: RunningService) -> None:
    described = service.get(f"{PREFIX}/openapi.json").json()

    assert described["servers"] == [{"url": PREFIX}]
    assert service.get(f"{PREFIX}/api/v1/services").json()["services"]
    assert service.get("/api/v1/services").json()["services"]


def documented(url: str, told: str) -> str:
    """The lines for nginx in our documentation, for this service and this path."""
    text = DOCUMENTED.read_text()
    (location,) = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
    (forwards,) = re.findall(rf"`(proxy_set_header {FORWARDED} .*?;)`", text)
    if told == FORWARDED:
        location = location.replace("}", f"{forwards}\n}}")
    forwarding: str = location.replace("http://127.0.0.1:8321", url)
    return forwarding.replace("/latencytrace", PREFIX)


@contextmanager
def nginx(folder: Path, port: int, service: RunningService, told: str) -> Iterator[str]:
    """Run it before a service; yields the address of the pages."""
    settings = folder / "nginx.conf"
    settings.write_text(
        CONFIGURATION.format(folder=folder, port=port, location=documented(service.url, told))
    )
    base = f"http://127.0.0.1:{port}{PREFIX}"

    def is_there() -> bool:
        try:
            return service.client.get(f"{base}/healthz").is_success
        except httpx.ConnectError:
            return False

    with subprocess.Popen([program("nginx"), "-p", str(folder), "-c", str(settings)]) as process:
        try:
            until(is_there, service.said)
            yield base
        finally:
            process.terminate()


@pytest.mark.parametrize("told", [PREFIX, FORWARDED])
def test_no_link_leaves_the_path_behind_nginx(tmp_path: Path, told: str) -> None:
    with RunningService(tmp_path / "data", "--root-path", told) as service:
        assert service.post(otlp(root_lately("b" * 32))).status_code == 200
        service.request("b" * 32)
        with nginx(tmp_path, free_port(), service, told) as base:
            host = base.removesuffix(PREFIX)
            seen = crawled(lambda address: service.client.get(f"{host}{address}"))
            without_slash = service.client.get(base)

    assert {f"{PREFIX}{page}" for page in PAGES} <= {urlsplit(one).path for one in seen}
    assert without_slash.headers["location"] == f"{base}/"


def test_no_script_leaves_the_path_behind_nginx(tmp_path: Path, browser: Browser) -> None:
    port = free_port()
    env = {
        "LATENCYTRACE_TOKEN": TOKEN,
        "LATENCYTRACE_PUBLIC_URL": f"http://127.0.0.1:{port}{PREFIX}",
    }
    flags = ("--listen", "0.0.0.0:0", "--root-path", PREFIX)
    with RunningService(tmp_path / "data", *flags, env=env, ready=False) as service:
        service.client.headers["authorization"] = f"Bearer {TOKEN}"
        service.wait_until_ready()
        assert service.post(otlp(root_lately("b" * 32))).status_code == 200
        service.request("b" * 32)
        asked = []
        with (
            nginx(tmp_path, port, service, PREFIX) as base,
            opened(browser, f"{base}/breakdown?since=2h") as (page, watched),
        ):
            page.on("request", lambda one: asked.append(one.url))
            page.get_by_label("Token").fill(TOKEN)
            page.get_by_role("button").click()
            expect(page.get_by_role("heading", level=1)).to_contain_text("Breakdown")
            heat = page.locator("svg.heat[data-ready]")
            heat.focus()
            page.keyboard.press("Enter")
            page.wait_for_url("**/requests?**")
            page.locator(f"a[href*='{'b' * 32}']").first.click()
            page.locator(".grid-row").first.click()
            expect(page.locator("#detail h2")).to_be_visible()

    assert all(one.startswith(f"{base}/") for one in asked), asked
    assert watched.errors[1:] == []  # the first is that nobody had logged in


def test_a_login_leads_back_below_the_path(tmp_path: Path) -> None:
    env = {"LATENCYTRACE_TOKEN": TOKEN, "LATENCYTRACE_PUBLIC_URL": "http://shop/tools/lt"}
    flags = ("--listen", "0.0.0.0:0", "--root-path", PREFIX)
    with RunningService(tmp_path / "data", *flags, env=env, ready=True) as service:
        page = service.get(f"{PREFIX}/breakdown?since=2h", {"accept": "text/html"})
        assert page.status_code == 401
        assert f'action="{PREFIX}/login"' in page.text
        form = {"token": TOKEN, "next": "/breakdown?since=2h"}
        answer = service.client.post(f"{service.url}{PREFIX}/login", data=form)

    assert answer.headers["location"] == f"{PREFIX}/breakdown?since=2h"
    assert f"path={PREFIX};" in answer.headers["set-cookie"].lower()
