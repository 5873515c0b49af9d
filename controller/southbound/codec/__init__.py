"""Bytes to values and back. Whatever a network may send is read or refused, nothing else."""
