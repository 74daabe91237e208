"""Test cases, the fp64 reference, the tolerance rule, and the run of a selection through pytest."""
