"""One request in the forms in which it is seen: the rows of a waterfall, a trace for Perfetto."""
