-- Insert a keyword of a model.
insert into models (name, features_of, keyword, weights, pictures, accuracy)
values (:name, :features_of, :keyword, :weights, :pictures, :accuracy)
