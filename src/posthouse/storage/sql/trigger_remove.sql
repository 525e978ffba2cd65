-- Removes a trigger; false if it does not exist.
select posthouse.remove_trigger(%(id)s, %(tenant)s, %(actor)s)
