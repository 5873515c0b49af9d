"""Experiments: schemes, workloads, the runner that emulates them, reports on recorded runs."""
