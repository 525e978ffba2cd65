-- Mark an uploaded video as processing; false if its processing has started already.
select vision.start_processing(%(video)s)
