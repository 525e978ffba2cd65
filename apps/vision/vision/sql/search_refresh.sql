-- Last in its transaction: others that refresh wait for its end.
select vision.refresh_search_materialized()
