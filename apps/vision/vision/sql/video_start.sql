-- Mark a video as processing; false if it no longer has the expected status.
select vision.start_processing(%(video)s, %(from)s)
