"""The command `penstock`, one module a command."""
