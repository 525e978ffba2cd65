-- Makes lanes known to claimers.
select posthouse.open_lanes(%s, %s, %s, %s, %s)
