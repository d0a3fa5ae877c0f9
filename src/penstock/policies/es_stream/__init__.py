"""Es-Stream: instances by marginal analysis. Policy `es-stream`."""
