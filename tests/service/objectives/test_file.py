"""A file of objectives is read, or refused with each fault and its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.errors import ObjectivesError
from latencytrace.model import Measure, Stage
from latencytrace.model.objective import DAY_NS
from latencytrace.service.objectives.file import parse_objectives, read_objectives
from tests.support.builders.made_objectives import made_objective

CHAT = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat-e2e}
spec:
  service: rag
  budgetingMethod: Occurrences
  timeWindow: [{duration: 30d, isRolling: true}]
  indicator:
    metadata: {name: chat-duration}
    spec:
      thresholdMetric:
        metricSource:
          type: latencytrace
          spec: {measure: duration, route: "POST /chat"}
  objectives: [{displayName: 99 % under 2 s, op: lte, value: 2.0, target: 0.99}]
"""


def fault(text: str) -> str:
    with pytest.raises(ObjectivesError) as raised:
        parse_objectives(text, "o.yaml")
    return str(raised.value)


def test_the_example_of_the_contract_is_read() -> None:
    assert parse_objectives(CHAT, "o.yaml").objectives == (made_objective(),)


def test_several_documents_are_several_objectives() -> None:
    second = CHAT.replace("chat-e2e", "chat-retrieve").replace(
        "measure: duration", 'measure: "stage:retrieve", model: tiny, version: "1.2"'
    )
    [_, found] = parse_objectives(f"---\n{CHAT}---\n{second}---\n", "o.yaml").objectives

    assert (found.measure, found.stage) == (Measure.STAGE, Stage.RETRIEVE)
    assert (found.model, found.version, found.measured) == ("tiny", "1.2", "stage:retrieve")


def test_several_targets_of_one_indicator_are_objectives_of_their_own() -> None:
    text = CHAT.replace("target: 0.99}", "target: 0.99}, {op: lte, value: 8, targetPercent: 99.9}")
    first, second = parse_objectives(text, "o.yaml").objectives

    assert (first.name, second.name) == ("chat-e2e-1", "chat-e2e-2")
    assert second.target_ratio == pytest.approx(0.999)


@pytest.mark.parametrize(("written", "days"), [("4w", 28), ("7d", 7), ("24h", 1), ("92d", 92)])
def test_a_period_is_days_or_weeks(written: str, days: int) -> None:
    [found] = parse_objectives(CHAT.replace("30d", written), "o.yaml").objectives

    assert found.period_ns == days * DAY_NS


def test_other_kinds_of_documents_are_noted_and_left_alone() -> None:
    text = f"{CHAT}---\napiVersion: openslo/v1\nkind: Service\nmetadata: {{name: rag}}\n"

    assert parse_objectives(text, "o.yaml").notes == ("o.yaml, line 17: a Service is not read",)


def test_a_tier_that_can_never_fire_is_refused_with_the_arithmetic() -> None:
    [note] = parse_objectives(CHAT.replace("0.99", "0.95"), "o.yaml").notes

    assert note.startswith("o.yaml, line 15: 'chat-e2e': the tier 28.8 times over 15 min")
    assert "28.8 * 0.05 of budget = 1.44" in note


def test_an_objective_that_could_never_page_is_refused_with_the_arithmetic() -> None:
    said = fault(CHAT.replace("0.99", "0.8"))

    assert said.startswith("o.yaml, line 15: spec.objectives[0] has the target 0.8: ")
    assert "6 * 0.2 = 1.2 of all requests" in said
    assert "Set a target of at least 0.8334" in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("0.99}", "0.9999999999}", "target is 0.9999999999: that allows less than one bad"),
        ("0.99}", "0.9999999999}", "write 0.999999 at most"),
        ("target: 0.99}", "targetPercent: 99.99999999}", "write 99.9999 at most"),
        ("0.99}", "1e-12}", "has the target 1e-12: no page could ever fire"),
        ("value: 2.0", "value: 1e-12", "value is 1e-12, less than a nanosecond"),
        ("value: 2.0", "value: 1e6", "value is 1e6, longer than a day"),
    ],
)
def test_a_number_is_repeated_as_it_was_written(old: str, new: str, says: str) -> None:
    assert says in fault(CHAT.replace(old, new))


@pytest.mark.parametrize("least", ["0.8334", "0.999999"])
def test_what_a_refusal_advises_is_taken(least: str) -> None:
    assert parse_objectives(CHAT.replace("0.99}", f"{least}}}"), "o.yaml").objectives


def test_a_request_may_take_a_day_at_most() -> None:
    read = parse_objectives(CHAT.replace("value: 2.0", "value: 86400"), "o.yaml")

    assert [one.threshold_ns for one in read.objectives] == [DAY_NS]
    assert "longer than a day" in fault(CHAT.replace("value: 2.0", "value: 86400.001"))


FAULTS = {
    "a tab": ("  service", "\tservice", 5, "not YAML"),
    "an open brace": ("{name: chat-e2e}", "{name: chat-e2e", 4, "not YAML"),
    "a wrong version": ("openslo/v1", "openslo/v2", 1, "write openslo/v1"),
    "an unknown kind": ("kind: SLO", "kind: SLA", 2, "write SLO or"),
    "no name": ("{name: chat-e2e}", "{labels: {}}", 3, "has no 'name'"),
    "a bad name": ("chat-e2e", "chat e2e", 3, "letters, digits"),
    "a field misspelt": ("route:", "rout:", 14, "did you mean 'route'?"),
    "a field twice": ("service: rag", "service: rag\n  service: x", 6, "is there twice"),
    "no service": ("  service: rag\n", "", 4, "has no 'service'"),
    "an empty service": ("service: rag", "service:", 5, "must be a text"),
    "no method": ("Occurrences", "Timeslice", 6, "write Occurrences or Timeslices or Ratio"),
    "time slices": ("Occurrences", "Timeslices", 15, "has no 'timeSliceTarget', which Timeslices"),
    "a calendar": ("isRolling: true", "isRolling: false", 7, "must roll"),
    "no truth": ("isRolling: true", "isRolling: maybe", 7, "write true or false"),
    "no list": ("[{duration: 30d, isRolling: true}]", "30d", 7, "must be a list"),
    "empty list": ("[{duration: 30d, isRolling: true}]", "[]", 7, "must be a list with an entry"),
    "a period misspelt": ("30d", "30 days", 7, "as 30d or 4w"),
    "a period of minutes": ("30d", "1m", 7, "is '1m', minutes: write 1M for months"),
    "a period too short": ("30d", "1h", 7, "between 1d and 92d"),
    "another source": ("type: latencytrace", "type: Datadog", 13, "write `type: latencytrace`"),
    "no query": ("type: latencytrace", "type: Prometheus", 14, "has no 'query': add it"),
    "an unknown measure": ("measure: duration", "measure: latency", 14, "time_to_first_token"),
    "an unknown stage": ("measure: duration", "measure: 'stage:think'", 14, "no stage 'think'"),
    "at least": ("op: lte", "op: gte", 15, "write lte"),
    "a value with a unit": ("value: 2.0", "value: 2s", 15, "write seconds, as 2.0"),
    "no value": ("value: 2.0", "value: .nan", 15, "no number"),
    "a value of nothing": ("value: 2.0", "value: 0", 15, "above 0"),
    "a target of all": ("target: 0.99", "target: 1", 15, "below 1, as 0.99"),
    "a target in percent": ("target: 0.99", "target: 99", 15, "below 1, as 0.99"),
    "a target beyond reach": ("target: 0.99", "target: 0.9999999", 15, "in a million"),
    "two targets": ("target: 0.99", "target: 0.99, targetPercent: 99", 15, "delete one"),
    "no target": ("target: 0.99", "", 15, "[0] has no 'target': add it"),
    "a share of slices": ("target: 0.99", "target: 0.9, timeSliceTarget: 1", 15, "not for Occur"),
    "two periods": ("true}]", "true}, {duration: 7d, isRolling: true}]", 7, "one too many"),
    "half a ratio": ("thresholdMetric", "ratioMetric", 11, "has no 'total': add it"),
    "a reference beside": ("indicator:", "indicatorRef: x\n  indicator:", 8, "delete one"),
    "no objective": ("apiVersion: openslo/v1\nkind: SLO", "groups: []", 1, "is no objective"),
    "a colon in a text": ("99 % under 2 s", "chat: 99 %", 15, "or quote a text that has a colon"),
    "a line without its colon": ("service:", "service", 6, "see that the line above is one"),
    "a quote left open": ('chat"', "chat", 16, "(of what begins in line 14)"),
    "no text at all": ("rag", "\x00", 1, "special characters are not allowed"),
    "a list for fields": ("metadata: {name: chat-e2e}", "metadata: [1]", 3, "must have fields"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "says"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_its_line_and_what_to_write(
    old: str, new: str, line: int, says: str
) -> None:
    said = fault(CHAT.replace(old, new, 1))

    assert said.startswith(f"o.yaml, line {line}: ")
    assert says in said


def test_every_fault_of_every_document_is_named_in_the_files_order() -> None:
    wrong = (
        CHAT.replace("chat-e2e", "chat e2e")
        .replace("Occurrences", "Timeslice")
        .replace("30d", "30 days")
        .replace("route:", "rout:")
        .replace("lte, value: 2.0", "gte, value: 2s")
    )
    lines = [line.split(":")[0] for line in fault(f"{wrong}---\n{wrong}").splitlines()]

    assert lines == [
        f"o.yaml, line {number}" for number in (3, 6, 7, 14, 15, 15, 19, 22, 23, 30, 31, 31)
    ]


def test_a_field_misspelt_is_not_missing_too() -> None:
    said = fault(CHAT.replace("service: rag", "servce: rag"))

    assert said == "o.yaml, line 5: spec.servce is not known: did you mean 'service'?"


def test_beside_what_is_not_yaml_the_other_documents_are_checked() -> None:
    broken = CHAT.replace("{name: chat-e2e}", "{name: chat-e2e")
    wrong = CHAT.replace("lte", "gte")
    first, second, third = fault(f"{broken}---\n{wrong}---\n{broken}").splitlines()

    assert first.startswith("o.yaml, line 4: not YAML: expected ',' or '}'")
    assert first.endswith("quote a text that has a colon (of what begins in line 3)")
    assert second.startswith("o.yaml, line 31: spec.objectives[0].op is 'gte'")
    assert third.startswith("o.yaml, line 36: not YAML")


def test_no_more_faults_are_shown_than_can_be_read() -> None:
    said = fault("---\n".join([CHAT.replace("lte", "gte")] * 60)).splitlines()  # and 59 names

    assert len(said) == 51
    assert said[-1] == "… and 69 more"


def test_a_name_is_there_once() -> None:
    assert "line 19: metadata.name is 'chat-e2e' a second time" in fault(f"{CHAT}---\n{CHAT}")


def test_a_file_without_objectives_is_refused() -> None:
    assert fault("") == "o.yaml has no document of `kind: SLO`: it has no objective"


@pytest.mark.parametrize("text", ["[" * 5000, "x" * 1_000_001, "a: &a [*a, *a]\nb: *c"])
def test_hostile_files_are_refused(text: str) -> None:
    assert fault(text).startswith("o.yaml")


@given(st.text(alphabet=st.sampled_from("aSLO:-{}[]&*!|>#'\"\n \t0.x")))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(ObjectivesError):
        parse_objectives(text, "o.yaml")


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ObjectivesError, match="cannot be read: No such file"):
        read_objectives(tmp_path / "none.yaml")
