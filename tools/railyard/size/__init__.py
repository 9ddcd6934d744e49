"""How many switches and cables a rail-optimised fabric takes."""
