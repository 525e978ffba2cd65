-- Workers found dead.
select posthouse.bury_dead()
