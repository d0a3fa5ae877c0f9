"""Mathematics shared by policies: rates through a plan, queues, bottlenecks."""
