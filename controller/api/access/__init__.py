"""Who may ask: tokens, the sessions of browsers, and how often."""
