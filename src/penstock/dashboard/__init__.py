"""The dashboard: a page in a browser that shows a run, live or from its history.

It reads only the run directory and runs in a process of its own, so finished and running flows look
alike. Requests go through the mailbox of the run, as on the command line.
"""
