"""Metrics and the structured log."""
