"""What starts Prometheus, Alertmanager and Grafana beside the service holds together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.repository.dashboard_files import FILES, ROOT, variables
from tests.support.servers.prometheus_programs import amtool, promtool

FOLDER = ROOT / "dashboards"


def read(path: str) -> dict[str, Any]:
    """What a file holds."""
    held: dict[str, Any] = yaml.safe_load((FOLDER / path).read_text("utf-8"))
    return held


def mounts(service: str) -> Iterator[tuple[Path, str]]:
    """The files and folders that a service of the compose file is given."""
    for mounted in read("compose.yaml")["services"][service]["volumes"]:
        source, target, *_ = mounted.split(":")
        if source.startswith("."):
            yield FOLDER / source, target


def test_prometheus_takes_its_file() -> None:
    said = promtool("check", "config", FOLDER / "prometheus.yaml")

    assert "SUCCESS" in said
    assert "WARNING" not in said


def test_alertmanager_takes_its_file() -> None:
    said = amtool("check-config", FOLDER / "alertmanager.yaml")

    assert "SUCCESS" in said


def test_grafana_is_given_every_dashboard_where_it_looks_for_them() -> None:
    [provider] = read("grafana/dashboards/latencytrace.yaml")["providers"]
    given = {Path(target) for source, target in mounts("grafana") if source.suffix == ".json"}

    assert given == {Path(provider["options"]["path"]) / path.name for path in FILES}


def test_what_is_mounted_is_there() -> None:
    services = ("prometheus", "alertmanager", "grafana")
    sources = {source for service in services for source, _ in mounts(service)}

    missing = {source.name for source in sources if not source.exists()}
    assert missing <= {"rules"}  # the user's own, from `latencytrace rules`


def test_nothing_is_published_but_on_loopback() -> None:
    services = read("compose.yaml")["services"].values()
    ports = [port for service in services for port in service["ports"]]

    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_addresses_name_services_of_the_compose_file() -> None:
    services = read("compose.yaml")["services"].keys()
    prometheus = read("prometheus.yaml")
    [scraped] = prometheus["scrape_configs"]
    [alerting] = prometheus["alerting"]["alertmanagers"]
    targets = [*scraped["static_configs"][0]["targets"], *alerting["static_configs"][0]["targets"]]
    sources = read("grafana/datasources/latencytrace.yaml")["datasources"]

    asked = {target.partition(":")[0] for target in targets}
    asked |= {source["url"].removeprefix("http://").partition(":")[0] for source in sources}
    assert asked <= services


def test_links_lead_to_the_published_service() -> None:
    address = {variables(path, "textbox")["latencytrace_url"]["query"] for path in FILES}
    [prometheus, _] = read("grafana/datasources/latencytrace.yaml")["datasources"]
    [destination] = prometheus["jsonData"]["exemplarTraceIdDestinations"]

    assert address == {"http://127.0.0.1:8321"}
    assert destination["url"] == "http://127.0.0.1:8321/requests/$${__value.raw}"
    assert "127.0.0.1:8321:8321" in read("compose.yaml")["services"]["latencytrace"]["ports"]
