"""What an API server refuses to store, and the words it uses.

Checks take plain JSON values after defaulting and return problems in the reference's order.
They cover what scheduling reads; fields that only a kubelet reads are stored as they come.
"""
