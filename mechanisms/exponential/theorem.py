"""What the exponential mechanism rests on."""

THEOREM = "McSherry & Talwar 2007 (exponential mechanism); McKenna & Sheldon 2020, Theorem 1"
