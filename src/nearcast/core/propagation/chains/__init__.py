"""Chains of recipients: peers pass a message on, and the broker knows who has it (seed E)."""
