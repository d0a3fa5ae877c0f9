"""Benchmarks: each compares Penstock with what a user would pick instead, in one run."""
