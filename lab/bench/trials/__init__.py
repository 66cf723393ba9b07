"""The search for a limit beside a plain bisection, on simulated systems whose limit is known."""
