"""``python -m posthouse``."""

from posthouse.cli.main import main

main()
