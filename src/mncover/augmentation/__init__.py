"""Coverage-guided augmentation: Algorithm 1 of the paper, and what is made with it."""
