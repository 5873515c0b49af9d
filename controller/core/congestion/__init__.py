"""Congestion: from queue notices and counts of flows to windows.

`windows` has SDTCP's equations and the standing windows, `regulator` decides for each egress port,
`registers` and `enforcer` have the switches do it, `regulation` puts these together. `egress_ports`
knows what each port can take.
"""
