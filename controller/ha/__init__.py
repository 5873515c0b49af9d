"""Several controllers of the same switches: one is master, the others wait to take its place.

`heartbeats` tell the other controllers that this one lives, `election` decides from them who is
master, `mastership` takes that role at each switch, and shows the application only the switches
that it is master of. What depends on other controllers belongs here, what the master then decides
does not.
"""
