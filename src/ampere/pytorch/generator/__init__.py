"""Networks drawn at random, to learn from what calls cost at many sizes and in many company."""
