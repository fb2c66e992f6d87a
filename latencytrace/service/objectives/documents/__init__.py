"""Objectives as files have them: OpenSLO, Sloth and Pyrra, read with the line of every fault."""
