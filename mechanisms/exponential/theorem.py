"""The theorem behind the exponential mechanism."""

THEOREM = "McSherry & Talwar 2007 (exponential mechanism); McKenna & Sheldon 2020, Theorem 1"
