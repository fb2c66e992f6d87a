"""Tests of the Prometheus rules, for `promtool test rules`: outages, blips, starts, silence.

Each says what the rules guarantee: an incident is one alert from its beginning to its end, and
silence is no recovery, though every tenth scrape fails. All objectives are tested at once, for
`promtool` evaluates every rule of the file in each test.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from latencytrace.analysis.slo.burn_promql import BUDGET_LEFT, BURN_RATE, WATCHED
from latencytrace.analysis.slo.burn_rate import calming_ns, detection_ns, keep_firing_ns
from latencytrace.cli.rule_files.prometheus import (
    ABSENT,
    Document,
    RuleSettings,
    firing,
    rules_of,
)
from latencytrace.model import AlertKind, BurnRule, Objective, Severity
from latencytrace.model.objective import MINUTE_NS, window_text

_PER_SCRAPE = 60  # requests
_FAILS = 10  # each such scrape does
_CALM_NS = 10 * MINUTE_NS  # before something happens
_BLIP_NS = 10 * MINUTE_NS  # at most, where it takes hours to page
_MOMENTS = 20  # of a stretch are looked at, at most
_FILLED = 0.8  # of what makes a tier fire: a little less holds an alert
_SLACK = 1.1  # detection must be within a tenth, and an evaluation or two, of the formula


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """An objective, and the tiers that page for it."""

    objective: Objective
    settings: RuleSettings
    pages: tuple[BurnRule, ...]

    @property
    def theory_ns(self) -> int:
        """Return how long a full outage lasts until the first tier pages."""
        found = (detection_ns(self.objective, rule, 1.0) for rule in self.pages)
        return min(length_ns for length_ns in found if length_ns is not None)

    @property
    def outage_ns(self) -> int:
        """Return how long an outage lasts that pages for certain, and goes on for a while."""
        return self.late(self.theory_ns) + 2 * MINUTE_NS

    @property
    def silent_ns(self) -> int:
        """Return how long no request comes then: as long as the page would last if they did."""
        return self.late(self._calming_ns(0))

    @property
    def ends_ns(self) -> int:
        """Return how long after that silence the page is over: tiers that are filled must calm."""
        return self.late(self._calming_ns(self.silent_ns))

    def _calming_ns(self, silent_ns: int) -> int:
        """How long good requests must come, where none came before for so long.

        A pause that is no gap in what was observed counts as the requests around it do.
        """
        budget, before_ns = self.objective.budget_ratio, _CALM_NS + self.outage_ns
        filled = [
            rule
            for rule in self.pages
            if self.outage_ns * (1 + min(silent_ns, rule.longest_pause_ns) / before_ns)
            >= _FILLED * rule.factor * budget * rule.long_ns
        ]
        calm_ns = max(calming_ns(self.objective, rule, 1.0) for rule in filled)
        return calm_ns + keep_firing_ns(self.objective, Severity.PAGE)

    @property
    def page(self) -> str:
        return f"ALERTS{{{firing(AlertKind.BURN, self.objective, Severity.PAGE)}}}"

    @property
    def absent(self) -> str:
        """Return what selects the alert on an unwatched objective."""
        return f"ALERTS{{{firing(ABSENT, self.objective, Severity.PAGE)}}}"

    def whole(self, length_ns: float) -> int:
        return round(length_ns / self.settings.interval_ns) * self.settings.interval_ns

    def late(self, length_ns: float) -> int:
        """The evaluation by which what takes so long has happened."""
        return self.whole(length_ns * _SLACK) + 3 * self.settings.interval_ns


_Scenario = Callable[[_Watched], tuple[list[Document], list[Document]]]


def tests_document(
    objectives: Sequence[Objective], settings: RuleSettings, rule_file: str
) -> Document:
    tiers = [(one, rules_of(one, settings)) for one in objectives]
    paging = [
        (one, tuple(rule for rule in rules if rule.severity is Severity.PAGE))
        for one, rules in tiers
    ]
    watched = [
        _Watched(objective=one, settings=settings, pages=pages) for one, pages in paging if pages
    ]
    scenarios: dict[str, _Scenario] = {
        "an outage is one page through failed scrapes and silence, until it is over": _outage,
        "a blip is silent": _blip,
        "a start does not page": _start,
        "no service watches it": _absence,
        "no request came yet": _idleness,
    }
    return {
        "rule_files": [rule_file],
        "evaluation_interval": window_text(settings.interval_ns),
        "tests": [_test(name, made, watched, settings) for name, made in scenarios.items()],
    }


def _test(
    name: str, made: _Scenario, watched: Sequence[_Watched], settings: RuleSettings
) -> Document:
    stories = [made(one) for one in watched]
    return {
        "name": name,
        "interval": window_text(settings.scrape_ns),
        "input_series": [one for series, _ in stories for one in series],
        "promql_expr_test": [one for _, expected in stories for one in expected],
    }


def _outage(one: _Watched) -> tuple[list[Document], list[Document]]:
    """Every request is bad: the fastest tier pages when the formula says.

    Then no request comes, and the page stays, alone, until they are good again.
    """
    step_ns = one.settings.interval_ns
    over_ns = _CALM_NS + one.outage_ns
    again_ns = over_ns + one.silent_ns
    began_ns = one.whole(_CALM_NS) + one.late(one.theory_ns)
    early_ns = max(0, one.whole(one.theory_ns / _SLACK) - 2 * step_ns)
    parts = [(_CALM_NS, 0), (one.outage_ns, 1), (one.silent_ns, None), (one.ends_ns, 0)]
    return list(_counters(one, parts)), [
        _nothing(one.page, _CALM_NS + early_ns),
        *(_one(one.page, at_ns) for at_ns in _moments(one, began_ns, over_ns)),
        *(_one(one.page, at_ns) for at_ns in _moments(one, over_ns, again_ns)),
        _nothing(one.page, again_ns + one.ends_ns),
        _one(f'{BUDGET_LEFT}{{slo="{one.objective.name}"}} < 1', over_ns),
    ]


def _blip(one: _Watched) -> tuple[list[Document], list[Document]]:
    """An outage of half the time that it takes to page, or of a while."""
    blip_ns = one.whole(min(one.theory_ns // 2, _BLIP_NS))
    after_ns = min(blip_ns, _CALM_NS)  # nothing comes of it any more
    moments = [_CALM_NS + blip_ns + one.whole(after_ns * share) for share in (0, 0.5, 1)]
    parts = [(_CALM_NS, 0), (blip_ns, 1), (after_ns, 0)]
    return list(_counters(one, parts)), [_nothing(one.page, at_ns) for at_ns in moments]


def _start(one: _Watched) -> tuple[list[Document], list[Document]]:
    """Slow requests right after a start, enough for the slowest page had they lasted."""
    slowest = max(one.pages, key=lambda rule: rule.long_ns)
    bad_ratio = min(1.0, 1.3 * slowest.factor * one.objective.budget_ratio)
    start_ns = one.whole(slowest.long_ns // 12)
    return list(_counters(one, [(start_ns, bad_ratio)])), [
        _nothing(one.page, one.whole(start_ns * tenths // 10)) for tenths in (3, 6, 9)
    ]


def _absence(one: _Watched) -> tuple[list[Document], list[Document]]:
    return [], [
        _nothing(one.absent, 9 * MINUTE_NS),
        _one(one.absent, 12 * MINUTE_NS),
        _nothing(f'{BURN_RATE}{{slo="{one.objective.name}"}}', 12 * MINUTE_NS),
    ]


def _idleness(one: _Watched) -> tuple[list[Document], list[Document]]:
    """The service says that it watches the objective, and no more."""
    scrapes = ceil(12 * MINUTE_NS / one.settings.scrape_ns)
    series: Document = {"series": f"{WATCHED}{{{_labels(one)}}}", "values": f"1x{scrapes}"}
    return [series], [_nothing(one.absent, 12 * MINUTE_NS)]


def _counters(one: _Watched, parts: Sequence[tuple[int, float | None]]) -> Iterator[Document]:
    """The counters: so long with such a share of bad requests, or with none at all."""
    bad, total = [0], [0]
    for length_ns, ratio in parts:
        for _ in range(ceil(length_ns / one.settings.scrape_ns)):
            total.append(total[-1] + (0 if ratio is None else _PER_SCRAPE))
            bad.append(bad[-1] + round(_PER_SCRAPE * (ratio or 0)))
    for counter, counts in (
        ("requests", total),
        ("bad_requests", bad),
        ("came_requests", total),
        ("came_bad_requests", bad),
    ):
        values = [
            "stale" if place % _FAILS == _FAILS - 1 else str(count)
            for place, count in enumerate(counts)
        ]
        series = f"latencytrace_slo_{counter}_total{{{_labels(one)}}}"
        yield {"series": series, "values": " ".join(values)}


def _labels(one: _Watched) -> str:
    """The labels of what the service counts."""
    return (
        f'slo="{one.objective.name}", service={_quoted(one.objective.service)}, '
        f"route={_quoted(one.objective.route or '')}, "
        'job="latencytrace", instance="latencytrace:8321"'
    )


def _moments(one: _Watched, since_ns: int, until_ns: int) -> range:
    """Evaluations of a stretch."""
    step_ns = one.whole(max(one.settings.interval_ns, (until_ns - since_ns) // _MOMENTS))
    return range(since_ns, until_ns + 1, step_ns)


def _quoted(text: str) -> str:
    """Write a label's value; Prometheus knows the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _one(expression: str, at_ns: int) -> Document:
    samples = [{"labels": "{}", "value": 1}]
    return {
        "expr": f"count({expression})",
        "eval_time": window_text(at_ns),
        "exp_samples": samples,
    }


def _nothing(expression: str, at_ns: int) -> Document:
    return {"expr": f"count({expression})", "eval_time": window_text(at_ns)}
