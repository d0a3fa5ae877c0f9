"""Dashboard: a browser page that shows a run, live or from its history.

It reads only the run directory, in a separate process, so running and finished flows look alike.
Requests go through the mailbox of the run, as on the command line.
"""
