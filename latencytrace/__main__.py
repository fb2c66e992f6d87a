"""`python -m latencytrace`."""

from latencytrace.cli import main

main()
