"""The experiments and workloads of the papers that Penstock reproduces."""
