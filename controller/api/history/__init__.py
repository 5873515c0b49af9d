"""What each port did: its last hour and day, second by second, and longer from Prometheus."""
