"""Congestion: from queue notices and counts of flows to windows.

`windows` has SDTCP's equations and the standing windows, `regulator` decides for each egress port,
`registers` and `enforcer` make the switches apply it, `regulation` puts these together.
`egress_ports` knows the capacity and the buffer of each port.
"""
