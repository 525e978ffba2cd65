-- Phrases that contain all words, or words that begin with them.
select * from calls.find_phrases(%(text)s, %(org)s, %(call)s, %(limit)s, %(offset)s)
