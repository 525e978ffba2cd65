-- Add a video to the search index.
select vision.refresh_search_materialized(%(video)s)
