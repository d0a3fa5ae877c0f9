"""The experiments of the paper on Stela."""
