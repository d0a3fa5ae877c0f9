"""Mathematics that several policies use: rates through a plan, queues, bottlenecks."""
