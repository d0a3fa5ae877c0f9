"""Whether the sinks hold exactly what follows from the input."""
