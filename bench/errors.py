"""What ends a measurement."""


class BenchError(Exception):
    """Something could not be measured. The message says what, and what was seen instead."""
