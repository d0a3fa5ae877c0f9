"""How a run is shown in a terminal, a notebook or to Prometheus."""
