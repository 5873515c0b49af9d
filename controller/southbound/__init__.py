"""OpenFlow 1.3 and Weir's extension to it; nothing here takes a decision about traffic.

transport/   connections of switches: accepted, over TLS or plain, read and written
switch/      one switch: its session, its flow tables, what it is sent and has confirmed
codec/       bytes to values and back: OpenFlow, the extension, frames
"""
