-- For the rest of the transaction: the index goes on until there are as many rules as were asked for that the tenant
-- may see and that are of the model.
set local hnsw.iterative_scan = strict_order
