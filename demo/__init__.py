"""The demo: two ComputeDomains on the same nodes of a real Kubernetes cluster, each isolated on its own IMEX channel."""
