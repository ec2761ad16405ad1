"""The driver's container image: four programs, the libraries they need, and nothing to log in with."""
