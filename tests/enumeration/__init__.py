"""Laws checked by enumeration: shipped samplers walked over every outcome of their random bits."""
