-- Must be last in its transaction: other refreshes wait for its end.
select vision.refresh_search_materialized()
