"""Drawings and charts: values, layout, and renderers for SVG, PNG and HTML."""
