-- What a model has learned so far.
delete from models where name = :name
