-- Store the vector of a rule of the loop without a queue.
update demo_loop set embedding = %(vector)b where rule_id = %(rule_id)s
