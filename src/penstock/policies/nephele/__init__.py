"""Nephele: latency constraints kept with the fewest instances. The policy `latency`."""
