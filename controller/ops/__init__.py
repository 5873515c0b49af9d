"""What those who keep a controller running see of it: its log, its event log, what systemd is told,
and how it ends when it has failed."""
