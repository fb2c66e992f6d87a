"""Values of attributes, apart from spans, whose classes take a program's start longer to make."""

from collections.abc import Mapping

AttributeValue = str | bool | int | float | bytes | tuple["AttributeValue", ...] | None
Attributes = Mapping[str, AttributeValue]
