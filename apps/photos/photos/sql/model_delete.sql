-- Delete a model.
delete from models where name = :name
