"""One module for each workload of the benchmark."""
