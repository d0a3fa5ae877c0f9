"""The experiments of the paper on Es-Stream."""
