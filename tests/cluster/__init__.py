"""Tests against a real API server, and what they need: programs built from pinned Go modules, and a harness."""
