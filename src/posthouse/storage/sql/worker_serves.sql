-- Says what a worker serves from now on.
update posthouse.workers set queues = %s, kinds = %s where id = %s returning id
