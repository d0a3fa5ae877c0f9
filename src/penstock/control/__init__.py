"""The control loop, the guard, and requests from people."""
