"""Connections of switches: the port they come to, TLS, and the channel that is read and written."""
