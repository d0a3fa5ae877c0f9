"""The experiments of the paper on stepwise profiling."""
