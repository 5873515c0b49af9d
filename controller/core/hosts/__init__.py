"""Hosts: learning them and answering for their addresses (`resolution`), forwarding to them
(`forwarding`), and limiting what they send (`edge_filter`, `flooding`, `over_budget`)."""
