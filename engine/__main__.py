"""`python -m engine` is `waterclock`."""

from engine.cli import main

main(prog_name="waterclock")
