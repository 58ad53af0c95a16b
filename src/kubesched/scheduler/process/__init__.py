"""The scheduler as a process: its command line, API clients, leader election and endpoints.

`process_setup.py` turns flags into a checked configuration, `scheduler_process.py` runs it. Parts
of other packages, such as pages, are passed in as `ProcessAddOns`.
"""
