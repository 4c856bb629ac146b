"""Commands that are killed, and given again."""
