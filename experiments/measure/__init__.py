"""Measurements of a test bed and whether they can be trusted: counters, the queue's trace,
processor time, the record of a run, and the checks that make it valid."""
