"""What must happen whoever runs jobs: due jobs are promoted, lost ones rescued, partitions made and dropped.

Any number of keepers may run. Each step is safe to repeat and to run twice at once.
"""
