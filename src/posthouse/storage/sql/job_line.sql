-- How many jobs stand before this one in its lane, counted up to a limit.
select count(*)::integer as ahead
from (select from posthouse.ready where lane = %(lane)s and position < %(position)s limit %(limit)s) as r
