"""Policies to compare with: `static`, `threshold`, `ds2` and `drs`."""
