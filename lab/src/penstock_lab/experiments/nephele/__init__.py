"""The experiments of the paper on Nephele."""
