"""Load with a ledger: open-loop producers and consumers whose every record is evidence."""
