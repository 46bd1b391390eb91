"""A policy, a shelf of pods, and a demonstration that sends them through a real webhook server."""
