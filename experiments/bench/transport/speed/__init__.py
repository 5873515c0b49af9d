"""How fast the coded transports' programs are, and what they cost, beside quinn and iperf3."""
