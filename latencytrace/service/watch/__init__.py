"""The loop that evaluates objectives and hands alerts on."""
