"""Several controllers of the same switches: heartbeats between them, the election of a master, and
mastership of each switch."""
