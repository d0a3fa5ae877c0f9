"""Es-Stream: marginal gain of instances, loaded executors. The policy `es-stream`."""
