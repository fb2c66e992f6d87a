"""Time that engines, proxies and clients report in attributes."""
