"""What every switch should hold (`tables`), and the audits that check whether it does."""
