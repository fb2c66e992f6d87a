"""Functions of the agent in C, where this installation has them.

Their forms in Python are the rule: each stands where it always stood, and does whatever is not the
usual case; all of it where there is no core (`LATENCYTRACE_COMPILED=0`, no compiler when it was
installed, another interpreter).
"""
