"""Values of attributes; a module of their own, since the classes of spans make a start slower."""

from collections.abc import Mapping

AttributeValue = str | bool | int | float | bytes | tuple["AttributeValue", ...] | None
Attributes = Mapping[str, AttributeValue]
