"""What the soaks of atp-proxy and of TCP-ACC's layer share: unmodified programs whose every byte is
compared, losses by turns, and the judgement of what both have."""
