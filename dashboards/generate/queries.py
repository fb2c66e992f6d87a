"""PromQL of the dashboards, put together of the service's metrics."""

from collections.abc import Sequence

REQUESTS = "latencytrace_requests_total"
TOKENS = "latencytrace_tokens_total"
REQUEST = "latencytrace_request_duration_seconds"
STAGE = "latencytrace_stage_duration_seconds"
SLOWEST_REQUESTS = "latencytrace_slowest_requests_total"
SLOWEST_STAGES = "latencytrace_slowest_stage_seconds_total"
TTFT = "latencytrace_time_to_first_token_seconds"
TPOT = "latencytrace_time_per_output_token_seconds"

# What is chosen at the top of a dashboard.
SCRAPED = 'job=~"$job",instance=~"$instance"'
COHORT = f'{SCRAPED},service=~"$service",route=~"$route",model=~"$model"'
FAILED = 'status=~"error|timeout|rejected"'

PERIOD = "$__range"  # the whole time shown
STEP = "$__rate_interval"  # one step of a graph, and no less than four scrapes


def total(metric: str, by: Sequence[str] = (), *, where: str = COHORT, period: str = STEP) -> str:
    """A counter's rate, or over the whole period its increase, summed by these labels."""
    function = "rate" if period == STEP else "increase"
    return f"{_sum(by)}({function}({metric}{{{where}}}[{period}]))"


def mean(
    histogram: str, by: Sequence[str] = (), *, where: str = COHORT, period: str = STEP
) -> str:
    """The mean of what a histogram has observed."""
    observed = total(f"{histogram}_sum", by, where=where, period=period)
    return f"{observed} / {total(f'{histogram}_count', by, where=where, period=period)}"


def quantile(
    share: float | str,
    histogram: str,
    by: Sequence[str] = (),
    *,
    where: str = COHORT,
    period: str = STEP,
) -> str:
    """A quantile, exact at the bounds of buckets and interpolated between them."""
    buckets = total(f"{histogram}_bucket", (*by, "le"), where=where, period=period)
    return f"histogram_quantile({share}, {buckets})"


def buckets(histogram: str, *, where: str = COHORT) -> str:
    """How many observations each bucket got, as a heat map draws them."""
    return f"sum by (le) (increase({histogram}_bucket{{{where}}}[{STEP}]))"


def _sum(by: Sequence[str]) -> str:
    return f"sum by ({', '.join(by)}) " if by else "sum"
