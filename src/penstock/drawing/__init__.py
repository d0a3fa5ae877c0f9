"""Drawings and figures: values, layout, and renderers for SVG, PNG and pages."""
