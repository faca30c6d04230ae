"""One module per migration. A released one is never edited."""
