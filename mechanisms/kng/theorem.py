"""What the K-norm gradient mechanism rests on."""

THEOREM = "Reimherr & Awan 2019 (KNG), Theorem 3.1"
