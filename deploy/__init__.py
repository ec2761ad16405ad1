"""Builds the container image and installs the driver in the lab."""
