"""How the storage of the application is chosen."""


def test_the_shared_names_of_a_bucket_are_enough(set_storage, bucket, s3_url, bucket_name, monkeypatch):
    del bucket
    for variable in ("STORAGE_URL", "S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"VISION_{variable}")
    store = set_storage(
        S3_BUCKET=bucket_name, S3_ENDPOINT=s3_url, S3_REGION="us-east-1", S3_ACCESS_KEY_ID="test",
        S3_SECRET_ACCESS_KEY="test",
    )  # fmt: skip
    store.put("videos/a", b"bytes")
    assert store.read("videos/a") == b"bytes"
