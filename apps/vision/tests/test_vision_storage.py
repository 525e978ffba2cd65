"""How the storage of the application is chosen."""

from uuid import uuid4

import boto3


def test_the_shared_names_of_a_bucket_are_enough(set_storage, bucket, s3, monkeypatch):
    del bucket
    name = f"bucket-{uuid4().hex[:8]}"
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    boto3.client("s3", endpoint_url=s3, region_name="us-east-1", **keys).create_bucket(Bucket=name)
    for variable in ("STORAGE_URL", "S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"VISION_{variable}")
    store = set_storage(
        S3_BUCKET=name, S3_ENDPOINT=s3, S3_REGION="us-east-1", S3_ACCESS_KEY_ID="test",
        S3_SECRET_ACCESS_KEY="test",
    )  # fmt: skip
    store.put("videos/a", b"bytes")
    assert store.read("videos/a") == b"bytes"
