"""mncover inside other tools: pytest, and the Trainer of transformers."""
