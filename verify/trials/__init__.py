"""The load tests of capacity.yml and compare.yml, and their reports."""
