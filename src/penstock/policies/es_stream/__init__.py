"""Es-Stream: instances by marginal analysis, executors by load. Policy `es-stream`."""
