-- Delete clips whose files were deleted.
delete from vision.clips where s3_path = any (%(paths)s)
