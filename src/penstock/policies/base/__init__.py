"""The policy interface, the registry, stored memory, options and messages."""
