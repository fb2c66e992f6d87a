"""The sentences of answers, the same in the terminal and on pages."""
