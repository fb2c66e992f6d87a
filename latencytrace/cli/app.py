"""The command line with all of its commands."""

from latencytrace.cli.command_line import COMMANDS, command_line

app = command_line(*COMMANDS)
