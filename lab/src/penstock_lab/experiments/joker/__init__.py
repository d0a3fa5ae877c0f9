"""The experiments of the paper on Joker."""
