"""What those who keep a controller running see of it, and how it ends.

`logs` writes the log, `event_log` the event log, `refusals` the lines on refused connections;
`systemd` tells systemd of the service, `failure` ends the process after an unexpected exception.
Every package above the core may use it. Nothing here decides about traffic.
"""
