"""The scheduler as a process: its command line, API clients, leader election and endpoints.

`process_setup.py` turns flags into a checked configuration, `scheduler_process.py` runs it. What
the rooms above the scheduler add to a process, such as pages, comes in as `ProcessAddOns`.
"""
