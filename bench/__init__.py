"""The load harness: `python -m bench SCENARIO`. README.md beside this file says how to read it."""
