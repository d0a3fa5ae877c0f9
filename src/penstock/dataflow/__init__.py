"""Dataflows as users write them: the API and the graph that it builds."""
