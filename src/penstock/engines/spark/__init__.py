"""The engine that runs a dataflow as queries of Structured Streaming."""
