"""Known faults put into good evidence, to show that the audit reports exactly them: no more and no less."""
