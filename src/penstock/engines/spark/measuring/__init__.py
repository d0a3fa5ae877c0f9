"""Measures a running flow: from Spark's progress reports and meters to a snapshot."""
