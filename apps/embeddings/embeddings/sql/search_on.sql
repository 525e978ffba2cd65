-- For the rest of the transaction: scan the index until enough rules of the tenant and the model are found.
set local hnsw.iterative_scan = strict_order
