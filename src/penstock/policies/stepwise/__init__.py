"""Stepwise profiling: the best plan in few rounds. Policy `stepwise`."""
