"""Stepwise profiling: the best plan under stress, in few rounds. Policy `stepwise`."""
