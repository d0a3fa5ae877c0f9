"""Differential tests: Spark's batch mode is the reference, and Penstock must give the same rows."""
