"""Verifying the whole ledger from scratch, trusting neither triggers nor the writer's own
arithmetic.

What may enter: checks that read and never write. What it may import: everything else of the store
but its writer.
"""
