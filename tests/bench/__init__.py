"""What a run costs, and how long the gate takes around the engine: `make bench-run` prints it, and ends with 1 where a bound does not hold."""
