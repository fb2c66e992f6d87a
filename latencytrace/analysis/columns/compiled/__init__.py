"""The array functions of the attribution over columns, in C."""
