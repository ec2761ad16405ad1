"""The fault suite: what breaks while workloads share memory, and what must hold all the same."""
