"""Stands in pandas' place on the path of a load's processes, which have no use for it.

pyarrow imports pandas where it is there, as on a host that audits: half of the time that a process takes to
start.
"""

raise ImportError("pandas is not for the processes of a load")
