"""A real multi-node Kubernetes on one machine, with emulated MNNVL hardware.

`lab/lab` is the command; `docs/lab.md` says how to use it and what is where.
"""
