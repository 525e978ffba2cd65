-- The models, and whether a change is paused.
select active, next, is_paused, texts_per_minute from embeddings.models
