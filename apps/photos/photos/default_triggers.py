"""The triggers of a new library: sync on changes, tag after a sync, sync every night."""

from __future__ import annotations

from typing import Any


def default_triggers(provider_id: str, zone: str) -> list[dict[str, Any]]:
    return [
        {
            "label": "Resync on folder change",
            "trigger_type": "event",
            "event_name": "provider.folder.updated",
            "definition_key": "photos.sync",
            "payload_template": {
                "provider_id": "{{event.provider_id}}",
                "path_prefix": "{{event.folder_path}}",
            },
            "dedupe_window_seconds": 0,  # a photo may arrive while the sync of the previous one runs
        },
        {
            "label": "Tag after a sync",
            "trigger_type": "event",
            "event_name": "images.ingest.completed",
            "definition_key": "photos.tag",
            "payload_template": {"path_prefix": "{{event.path_prefix}}"},
            "dedupe_window_seconds": 0,
        },
        {
            "label": "Nightly provider sync",
            "trigger_type": "schedule",
            "cron_expr": "0 2 * * *",
            "timezone": zone,
            "definition_key": "photos.sync",
            "payload_template": {"provider_id": provider_id, "path_prefix": "/"},
        },
    ]
