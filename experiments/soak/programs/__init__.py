"""What soaks of unmodified programs share: programs whose every byte is
compared, losses by turns, and the judgement of what both have."""
