"""What is read while something happens on a test bed, and whether it can be trusted: counters, the
queue's trace, processor time, the record of a run, and the checks that make it valid."""
