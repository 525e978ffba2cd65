-- Clips whose files were removed.
delete from vision.clips where s3_path = any (%(paths)s)
