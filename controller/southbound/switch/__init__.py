"""One switch: its session and its flow tables (`pipeline`), brought in step with what is wanted
(`resync`, `ledger`, `readback`), and the budgets of what it copies up."""
