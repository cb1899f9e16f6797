"""The bounds of the number of episodes at once that an admission control may choose."""

FIRST_AT_ONCE = 16  # where slow start begins
MOST_AT_ONCE = 1024
