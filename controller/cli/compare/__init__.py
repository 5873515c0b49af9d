"""`weir-controller compare`: regulation is turned on and off in turns, on the present traffic.

`command.py`: the command, its progress and what it prints. `turns.py`: makes the turns, and leaves
regulation on. `readings.py`: what switches count in a turn. `statistics.py`: paired differences.
`verdict.py`: what follows from all turns.
"""
