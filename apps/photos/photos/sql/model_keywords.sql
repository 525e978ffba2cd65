-- The keywords of a model.
select keyword, weights from models where name = :name order by keyword
