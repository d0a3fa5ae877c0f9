"""What every policy is built on: the interface, the registry, options and messages."""
