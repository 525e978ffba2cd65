-- A picture that is gone.
delete from pictures where id = :id
