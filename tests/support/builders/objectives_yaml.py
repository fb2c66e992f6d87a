"""A file of objectives, as a user would write it."""

from pathlib import Path


def objectives_yaml(
    folder: Path,
    threshold_s: float = 2.0,
    period: str = "30d",
    target: float = 0.99,
    route: str = "POST /chat",
) -> Path:
    """Promise that so many requests of `rag` are within a threshold."""
    path = folder / "objectives.yaml"
    path.write_text(
        f"""
apiVersion: openslo/v1
kind: SLO
metadata: {{name: chat-e2e}}
spec:
  service: rag
  budgetingMethod: Occurrences
  timeWindow: [{{duration: {period}, isRolling: true}}]
  indicator:
    spec:
      thresholdMetric:
        metricSource:
          type: latencytrace
          spec: {{measure: duration, route: "{route}"}}
  objectives: [{{op: lte, value: {threshold_s}, target: {target}}}]
"""
    )
    return path
