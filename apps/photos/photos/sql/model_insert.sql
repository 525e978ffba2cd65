-- Insert a keyword of a model.
insert into models (name, keyword, weights, pictures, accuracy)
values (:name, :keyword, :weights, :pictures, :accuracy)
