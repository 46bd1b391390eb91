"""Certificates: who signs them, what they say, how they are written."""
