"""Programs that do the work with one peer each, in its own language and environment."""
