"""What is kept in a run directory: options, history, mailbox, and how files are written."""
