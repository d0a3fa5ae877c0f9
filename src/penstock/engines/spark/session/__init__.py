"""The Spark session of a flow, and the environment it starts in."""
