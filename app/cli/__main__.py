"""``python -m app.cli``, where ``release-desk`` is not installed."""

from app.cli import main

main()
