"""``python -m posthouse``."""

from posthouse.cli import main

main()
