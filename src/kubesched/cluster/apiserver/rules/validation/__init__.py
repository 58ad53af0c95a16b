"""Validation of objects, with the reference's error texts.

Checks take plain JSON values after defaulting and return problems in the reference's order. They
cover the fields that affect scheduling. Fields that only a kubelet uses are not validated.
"""
