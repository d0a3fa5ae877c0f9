"""One pipeline as one Structured Streaming query: operators, batches, sinks."""
