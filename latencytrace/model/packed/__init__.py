"""Values that travel packed in one attribute of a span: intervals, token times, runtime gaps."""
