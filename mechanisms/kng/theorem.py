"""The theorem behind the K-norm gradient mechanism."""

THEOREM = "Reimherr & Awan 2019 (KNG), Theorem 3.1"
