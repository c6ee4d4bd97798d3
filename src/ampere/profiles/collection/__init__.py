"""Collection: the profiles of a library in a few words, beside each other, and how one joins."""
