-- Removes a trigger; false if there is none.
select posthouse.remove_trigger(%(id)s, %(tenant)s, %(actor)s)
