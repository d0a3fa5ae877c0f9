"""Views of a run: terminal, notebook, Prometheus."""
