"""A run as a report: story, figures and page."""
