"""Stepwise profiling: the best plan under stress, in few rounds. The policy `stepwise`."""
