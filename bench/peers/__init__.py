"""One module for each contestant; they are imported in their own environments only."""
