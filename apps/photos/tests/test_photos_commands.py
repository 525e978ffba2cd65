"""The command line by itself: no jobs, no database server."""

import os

import pytest

from photos.library import Library
from photos.sample_pictures import render_scene


@pytest.fixture
def provider(photos, camera):
    folder = camera()
    _, done, _ = photos("add-provider", "--folder", str(folder))
    return folder, done["provider_id"]


class BrightnessModel:
    """A model of the user's own."""

    name = "brightness"

    def features(self, image):
        return {"mean": image.convert("L").resize((1, 1)).getpixel((0, 0)) / 255}

    def tags(self, width, height, features):
        return {
            "sunny" if features["mean"] > 0.4 else "gloomy": 0.75,
            "wide" if width > height else "tall": 1,
        }


def tags(photos, path, source, tenant="harbour"):
    _, pictures, _ = photos("list", tenant=tenant)
    (found,) = (picture for picture in pictures if picture["path"] == path)
    return {tag["keyword"] for tag in found["tags"] if tag["source"] == source}


def counts(ran):
    return {name: number for name, number in ran[1].items() if isinstance(number, int)}


def test_a_sync_takes_over_what_is_new_changed_and_gone(photos, provider):
    folder, provider_id = provider
    sync = ("sync", "--provider-id", provider_id)
    assert counts(photos(*sync)) == {
        "added": 12,
        "changed": 0,
        "removed": 0,
        "unreadable": 0,
        "pictures": 12,
    }
    assert counts(photos(*sync)) == {
        "added": 0,
        "changed": 0,
        "removed": 0,
        "unreadable": 0,
        "pictures": 12,
    }
    render_scene("forest", folder / "beach/0.jpg", 50)
    os.utime(folder / "beach/1.jpg", (1, 1))  # touched, but the same
    (folder / "beach/2.jpg").unlink()
    render_scene("sunset", folder / "new.png", 51)
    assert counts(photos(*sync)) == {
        "added": 1,
        "changed": 1,
        "removed": 1,
        "unreadable": 0,
        "pictures": 12,
    }
    assert "green" in tags(photos, "/beach/0.jpg", "automatic")


def test_photos_are_tagged_by_color_brightness_and_shape(photos, provider):
    _, provider_id = provider
    photos("sync", "--provider-id", provider_id)
    assert {"blue", "landscape"} <= tags(photos, "/beach/0.jpg", "automatic")
    assert {"green", "landscape"} <= tags(photos, "/forest/0.jpg", "automatic")
    code, done, _ = photos("tag", "--path-prefix", "/forest")
    assert (code, done["pictures"]) == (0, 4)


def test_keywords_are_learned_from_folders_and_given_to_all(photos, provider):
    folder, provider_id = provider
    render_scene("beach", folder / "inbox" / "IMG_1.jpg", 99)
    photos("sync", "--provider-id", provider_id)
    _, done, _ = photos("train", "--model", "second")
    assert done["keywords"].keys() == {"beach", "forest", "sunset"}
    assert min(done["keywords"].values()) > 0.9
    _, done, _ = photos("retag", "--model", "second")
    assert done["pictures"] == 13
    assert tags(photos, "/inbox/IMG_1.jpg", "trained") == {"beach"}
    photos("retag", "--model", "second")
    assert tags(photos, "/inbox/IMG_1.jpg", "trained") == {"beach"}, "again, it is the same"


def test_new_photos_get_the_keywords_of_the_default_model(photos, provider):
    folder, provider_id = provider
    photos("sync", "--provider-id", provider_id)
    photos("train")
    render_scene("beach", folder / "inbox" / "1.jpg", 99)
    photos("sync", "--provider-id", provider_id)
    assert tags(photos, "/inbox/1.jpg", "trained") == {"beach"}
    render_scene("forest", folder / "inbox" / "1.jpg", 98)
    photos("sync", "--provider-id", provider_id)
    assert tags(photos, "/inbox/1.jpg", "trained") == {"forest"}, "none of the previous content"


def test_another_model_analyzes_all_photos_again_and_needs_training(photos, provider, monkeypatch):
    _, provider_id = provider
    sync = ("sync", "--provider-id", provider_id)
    photos(*sync)
    photos("train")
    monkeypatch.setenv("PHOTOS_MODEL", f"{__name__}:BrightnessModel")
    assert photos(*sync)[1]["changed"] == 12
    assert tags(photos, "/beach/0.jpg", "automatic") == {"sunny", "wide"}
    code, _, err = photos("retag")
    assert (code, "trained with features of 'color', not 'brightness'" in err) == (65, True)
    assert photos("train")[0] == photos("retag")[0] == 0
    monkeypatch.setenv("PHOTOS_MODEL", "no.such.module:Model")
    code, _, err = photos("tag")
    assert (code, "set PHOTOS_MODEL to module:class" in err) == (65, True)


def test_only_a_part_of_the_folder_is_synced(photos, provider):
    _, provider_id = provider
    sync = ("sync", "--provider-id", provider_id, "--path-prefix")
    assert photos(*sync, "/beach")[1]["added"] == 4
    assert counts(photos(*sync, "/")) == {
        "added": 8,
        "changed": 0,
        "removed": 0,
        "unreadable": 0,
        "pictures": 12,
    }


def test_files_that_are_no_pictures_are_named_and_do_no_harm(photos, provider):
    folder, provider_id = provider
    (folder / "broken.jpg").write_bytes(b"no picture")
    whole = (folder / "beach/0.jpg").read_bytes()
    (folder / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "notes.txt").write_text("no picture, and does not say so")
    (folder / "link.jpg").symlink_to("/etc/hostname")
    code, done, err = photos("sync", "--provider-id", provider_id)
    assert (code, done["added"], done["unreadable"]) == (0, 14, 2)
    assert "cannot read /broken.jpg: not a supported image format" in err
    assert "cannot read /half.jpg: OSError: image file is truncated" in err
    assert photos("sync", "--provider-id", provider_id)[1]["unreadable"] == 0, "reported once"


def test_tenants_have_libraries_of_their_own(photos, provider, photos_root):
    _, provider_id = provider
    photos("sync", "--provider-id", provider_id)
    code, _, err = photos("sync", "--provider-id", provider_id, tenant="sakura")
    assert (code, f"provider {provider_id} does not exist" in err) == (65, True)
    assert photos("list", tenant="sakura")[1] == []
    assert sorted(path.name for path in photos_root.iterdir()) == ["harbour", "sakura"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sync", "--provider-id", "x"], "provider x does not exist"),
        (["train"], "nothing to train: no folder has 3 photos or more"),
        (["retag", "--model", "none"], "model 'none' does not exist; train it"),
        (["add-provider", "--folder", "no/where"], "is not a folder"),
    ],
)
def test_a_permanent_error_exits_with_65(photos, arguments, message):
    code, done, err = photos(*arguments)
    assert (code, done) == (65, None)
    assert message in err


def test_a_path_that_leads_out_of_the_folder_is_refused(photos, provider):
    _, provider_id = provider
    for prefix in ("/../x", "x"):
        code, _, err = photos("sync", "--provider-id", provider_id, "--path-prefix", prefix)
        assert (code, "must not contain .." in err) == (65, True)
    code, _, err = photos("list", tenant="../other")
    assert (code, "invalid tenant" in err) == (65, True)


def test_a_wrong_token_opens_nothing(photos, provider, monkeypatch):
    _, provider_id = provider
    monkeypatch.setenv("PHOTOS_TOKEN", "wrong")
    code, _, err = photos("sync", "--provider-id", provider_id)
    assert (code, "access to provider camera denied" in err) == (65, True)


def test_a_missing_folder_is_retried(photos, provider):
    folder, provider_id = provider
    folder.rename(folder.with_name("elsewhere"))
    code, _, err = photos("sync", "--provider-id", provider_id)
    assert (code, "cannot access the folder" in err) == (75, True)


def test_a_change_is_made_whole_or_not_at_all(photos_root):
    with Library(photos_root / "a") as library:
        one = {"id": "p", "label": "l", "folder": "f"}
        with pytest.raises(Exception, match="UNIQUE"):
            library.change(("provider_insert", [one, one]))
        assert library.rows("provider_get", id="p") == []
