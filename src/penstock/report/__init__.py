"""Report of a run: its data, figures, text and HTML page."""
