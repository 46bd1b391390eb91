"""What goes wrong with a cluster."""


class HarnessError(Exception):
    """One line for a person: what failed, the last thing it said, and where its log is."""
