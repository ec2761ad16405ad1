"""`make bench`: what the driver costs, beside controls measured in the same run. docs/bench.md says how to read it."""
