"""Live requests of which some are bad, for a known reason or for none."""

from dataclasses import dataclass
from random import Random

from latencytrace.model import Request, Stage
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.made_requests import made_request
from tests.support.builders.traffic import START_NS

BEFORE_S, INCIDENT_S = 300, 180
TENANTS = ("acme", "globex", "initech", "umbrella", "hooli", "vehement")
REASONS = ("tenant", "version", "instance", "input_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Separated:
    """What came, in order of its end, and what the bad ones of the incident have in common."""

    requests: tuple[Request, ...]
    key: str | None  # None: nothing does
    value: str | None  # None: a number, over some bound


def separated(seed: int, reason: str | None) -> Separated:
    """Five usual minutes, then a release to all instances, then three minutes of an incident.

    A canary of version 3 takes a quarter of the traffic from the release on. What is bad for a
    reason has it for 60 to 100 % of the requests with it, and 1 % of the others. Without a
    reason 5 to 40 % of all requests are bad.
    """
    random = Random(seed)
    per_s = random.choice((1, 3, 8))
    culprit = {
        "tenant": random.choice(TENANTS),
        "version": "3",
        "instance": f"rag-{random.randint(0, 3)}",
    }
    bad_ratio = random.uniform(0.6, 1.0) if reason else random.uniform(0.05, 0.4)
    made = []
    for number in range((BEFORE_S + INCIDENT_S) * per_s):
        at_s = number / per_s
        released = at_s >= BEFORE_S
        canary = released and random.random() < 0.25
        of = {
            "tenant": random.choice(TENANTS),
            "version": "3" if canary else "2" if released else "1",
            "instance": f"rag-{random.randint(0, 3)}",
        }
        tokens = round(random.lognormvariate(6, 0.8))
        is_meant = reason is None or (
            tokens > 1_200 if reason == "input_tokens" else of[reason] == culprit[reason]
        )
        slow = random.random() < (bad_ratio if released and is_meant else 0.01)
        retrieve_ns = round((2.0 if slow else 0.1) * random.uniform(0.9, 1.3) * SECOND_NS)
        end_ns = START_NS + round(at_s * SECOND_NS)
        request = made_request(
            stages={Stage.RETRIEVE: retrieve_ns, Stage.DECODE: SECOND_NS // 2},
            trace_id=f"{number + 1:032x}",
            start_ns=end_ns - retrieve_ns - SECOND_NS // 2,
            version=of["version"],
            instance=of["instance"],
            input_tokens=tokens,
            attributes=(
                ("tenant", of["tenant"]),
                ("session.id", f"{random.getrandbits(40)}"),
                ("user.id", f"user-{random.randint(0, 40)}"),
                ("region", random.choice(("eu", "us"))),
            ),
        )
        made.append(request)
    return Separated(requests=tuple(made), key=reason, value=culprit.get(reason or ""))
