"""One switch: its session, its flow tables (`pipeline`) and the entries in them (`encoding`), which
are kept as wanted (`resync`, `ledger`, `readback`), and the budgets of what it sends up."""
