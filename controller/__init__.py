"""Weir's OpenFlow controller: knows all TCP connections and keeps incast from collapsing them."""

__version__ = "0.1.0"
