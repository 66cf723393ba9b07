"""The canary: small loads one after the other without a gap, what is known of them at once, their audit."""
