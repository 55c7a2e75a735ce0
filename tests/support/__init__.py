"""What the tests share: texts, calls, stores, servers, processes, faults."""
