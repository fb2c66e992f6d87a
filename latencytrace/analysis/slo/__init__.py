"""Burn rates, verdicts, and the stage to blame."""
