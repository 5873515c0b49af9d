"""The decisions, pure: events and the time in, effects out. No I/O, no clock, no OpenFlow.

`engine` puts the parts together. Each part uses only those below it:

    bandwidth/     what paths have left, and what announced flows may send
    congestion/    how large windows may be, and which registers say so
    flows/         the global-view flow table and the life of connections
    hosts/         where hosts are, and what they may ask for
    topology/      switches, links, paths, next hops, round trips
    desired/       what each switch is to hold, and whether it does
"""
