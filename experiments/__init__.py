"""Experiments: schemes, workloads, the runner that emulates them, reports on what it recorded."""
