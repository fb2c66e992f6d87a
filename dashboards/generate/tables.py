"""Tables: a row for each set of labels."""

from collections.abc import Mapping, Sequence

from dashboards.generate.dashboard import Json, heading
from dashboards.generate.panel import WHOLE, instant, of_field, panel
from dashboards.generate.panels import Steps, thresholds_of


def table(
    title: str,
    description: str,
    columns: Mapping[str, tuple[str, str, str]],
    *,
    labels: Sequence[str],
    links: Sequence[Json] = (),
    thresholds: Mapping[str, Steps] | None = None,
) -> Json:
    """A row for each set of labels, sorted by the first column of values.

    Args:
        title: Its heading.
        description: What it shows.
        columns: By heading the query, its unit and how the cell is drawn.
        labels: The labels that stand before the values.
        links: Of every label.
        thresholds: Of columns whose colour says how they stand.
    """
    targets = [instant(expr, table=True) for expr, _, _ in columns.values()]
    values = [f"Value #{chr(ord('A') + number)}" for number in range(len(columns))]
    if len(columns) == 1:
        values = ["Value"]
    headings = dict(zip((*labels, *values), (*map(heading, labels), *columns), strict=True))
    overrides = [
        of_field(
            column,
            {
                "unit": unit,
                "custom.cellOptions": {"type": cell},
                **({"decimals": 0} if unit == "locale" else {}),  # of an increase
                **({"fieldMinMax": True} if cell == "gauge" else {}),  # not all columns' most
                **thresholds_of((thresholds or {}).get(column)),
            },
        )
        for column, (_, unit, cell) in columns.items()
    ]
    overrides += [
        of_field(heading(label), {"custom.minWidth": 150, "links": list(links)})
        for label in labels
    ]
    first_unit = next(iter(columns.values()))[1]
    custom: Json = {
        "align": "auto",
        "cellOptions": {"type": "auto"},
        "inspect": False,
        "minWidth": 80,  # pixels; at the usual 150 the last of ten columns is hidden
    }
    drawn = panel(
        "table",
        title,
        description,
        targets,
        size=(WHOLE, 9),
        fields={
            "defaults": {"unit": first_unit, "min": 0, "custom": custom},
            "overrides": overrides,
        },
        options={
            "frameIndex": 0,
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": next(iter(columns)), "desc": True}],
        },
    )
    organize: Json = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(headings)},
        "renameByName": headings,
    }
    drawn["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": organize},
    ]
    return drawn


def listed(
    title: str,
    description: str,
    asked: Json,
    *,
    units: Mapping[str, str],
    links: Mapping[str, Json] | None = None,
    width: int = WHOLE,
) -> Json:
    """The rows of a query as they come, with units and links by column."""
    overrides = [of_field(name, {"unit": unit}) for name, unit in units.items()]
    overrides += [of_field(name, {"links": [link]}) for name, link in (links or {}).items()]
    custom: Json = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}
    return panel(
        "table",
        title,
        description,
        [asked],
        size=(width, 9),
        fields={"defaults": {"unit": "none", "custom": custom}, "overrides": overrides},
        options={"frameIndex": 0, "showHeader": True, "cellHeight": "sm"},
    )
