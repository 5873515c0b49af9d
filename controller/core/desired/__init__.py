"""What every switch is to hold (`tables`), and the audits that find out whether it does."""
