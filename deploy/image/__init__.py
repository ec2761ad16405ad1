"""The driver's container image: three programs, the libraries they need, and nothing to log in with."""
