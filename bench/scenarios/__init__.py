"""Scenarios: one a file, each an async function that returns its metrics."""
