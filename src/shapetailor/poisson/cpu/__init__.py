"""The compiled solver for the CPU."""
