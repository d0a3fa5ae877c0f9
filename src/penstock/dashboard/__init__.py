"""The dashboard: a page in a browser that shows a run, live or from its history.

Everything is read from the run directory, so the dashboard is another process than the run, and a
run that is over looks like one that is under way. What a person asks for goes through the mailbox
of the run, as on the command line.
"""
