"""The picture of no request."""

from markupsafe import Markup

from latencytrace.service.web.drawing.axes import HEIGHT, WIDTH

TEXT = "No request matches."


def nothing() -> Markup:
    """As large as the pictures over time, so that a file of it is one, too."""
    return Markup(  # noqa: S704 - numbers and our own text
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TEXT}">'
        f'<text class="axis" x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">{TEXT}'
        "</text></svg>"
    )
