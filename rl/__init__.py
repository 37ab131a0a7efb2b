"""Who decides: the learned sampling policy. Its rooms are laid out in CONTRIBUTING.md; nothing is in them yet."""
