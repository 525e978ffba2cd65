-- The keywords of a model.
select keyword, weights, features_of from models where name = :name order by keyword
