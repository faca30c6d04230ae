"""What extended objective perturbation rests on."""

THEOREM = "Awan & Slavkovic 2021, Theorem 5.1 (extended objective perturbation)"
