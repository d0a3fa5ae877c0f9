"""From Spark's reports and meters to a snapshot."""
