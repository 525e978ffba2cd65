"""Arguments of ffmpeg for test media."""

PICTURE = ("-f", "lavfi", "-i", "testsrc=size=160x90:rate=10")
TONE = ("-f", "lavfi", "-i", "sine=sample_rate=8000")
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
AAC = ("-c:a", "aac")
