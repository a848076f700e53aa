"""The suite's own attention statistics, one file each; `probes.attention.statistics` says how to add one."""
