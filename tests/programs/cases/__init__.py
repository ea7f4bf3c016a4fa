"""The programs of `pairs.py`: what serves, what calls it, and what must come out."""
