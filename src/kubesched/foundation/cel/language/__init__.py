"""The language itself: from text to a checked syntax tree to closures.

The function libraries (`kubesched.foundation.cel.library`) build on it.
"""
