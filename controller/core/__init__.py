"""What the controller decides: pure no socket, no clock, no Ryu. Time comes in as `now_ns`."""
