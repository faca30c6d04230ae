"""The theorem behind the functional mechanism."""

THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 and section 6 (functional mechanism)"
