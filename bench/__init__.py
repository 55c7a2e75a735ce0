"""The benchmark: `make bench`, `make bench-quick`. Results in `RESULTS.md`."""
