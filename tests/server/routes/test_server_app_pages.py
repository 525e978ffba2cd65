"""Pages of applications: the layout, the login and the content policy of the console."""

from __future__ import annotations

import json
import re
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter

from posthouse.errors import ConfigurationError
from posthouse.server import Access, Permission, allow, app_pages, create_app
from posthouse.settings import Settings
from support.server import key_for

MAIN = """
import { html, useState } from "posthouse/preact.js"
import { startApp } from "posthouse/app.js"
import { site, useApi } from "posthouse/api.js"
import { upload } from "posthouse/upload.js"
import { shout } from "loud"

function Orders() {
  const { data } = useApi(site("/shop/orders"))
  const [answer, setAnswer] = useState("")
  const send = () => upload(site("/shop/orders"), new Blob(["rye"]), { method: "POST" }).then(setAnswer)
  return html`
    <ul>${(data ?? []).map((each) => html`<li key=${each}>${shout(each)}</li>`)}</ul>
    <button onClick=${send}>Send</button><output>${answer}</output>`
}

startApp({
  name: "Shop",
  sections: [{ name: "orders", path: "", text: "Orders", icon: "list" }],
  routes: [{ pattern: "", page: Orders, title: "Orders", section: "orders" }],
})
"""


@pytest.fixture
def shop_routers(tmp_path):
    folder = tmp_path / "pages"
    (folder / "css").mkdir(parents=True)
    (folder / "main.js").write_text(MAIN)
    (folder / "css" / "shop.css").write_text("ul { list-style: square }")
    (tmp_path / "loud.js").write_text("export const shout = (text) => `${text.toUpperCase()}!`\n")
    shop = APIRouter()

    @shop.get("/shop/orders")
    async def orders(access: Annotated[Access, allow(Permission.JOBS_READ)]) -> list[str]:
        return ["bread"]

    @shop.post("/shop/orders")
    async def add(access: Annotated[Access, allow(Permission.JOBS_WRITE)]) -> str:
        return "thanks"

    return [shop, app_pages("shop", "The <shop>", folder, modules={"loud": tmp_path / "loud.js"})]


@pytest.fixture
async def app_client(database, shop_routers):
    api = create_app(Settings(database_url=database), shop_routers)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://shop") as client,
    ):
        yield client


async def test_a_page_has_the_policy_of_the_console_and_may_play_media(app_client):
    page, console = await app_client.get("/apps/shop/any/path"), await app_client.get("/console/")
    assert "The &lt;shop&gt;" in page.text
    policy, other = (
        re.sub(r"nonce-[\w-]+", "nonce", answer.headers["content-security-policy"])
        for answer in (page, console)
    )
    assert policy == f"{other}; media-src 'self' blob:; worker-src 'self' blob:"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"


async def test_every_file_that_a_page_names_exists(app_client):
    page = (await app_client.get("/apps/shop/")).text
    imports = json.loads(re.search(r'<script type="importmap".*?>(.*?)</script>', page, re.DOTALL)[1])[
        "imports"
    ]
    named = [*re.findall(r'(?:src|href)="([^"]+/assets/[^"]+)"', page), *imports.values()]
    assert {"preact", "htm", "loud", "posthouse/", "posthouse/app.js"} <= set(imports)
    assert any(path.endswith("css/shop.css") for path in named)
    for path in named:
        found = await app_client.get(f"{path}preact.js" if path.endswith("/") else path)
        assert found.status_code == 200, path
        assert "immutable" in found.headers["cache-control"]


async def test_only_files_of_the_folder_are_served(app_client, tmp_path):
    (tmp_path / "secret.js").write_text("not yours")
    version = re.search(r"/apps/shop/assets/(\w+)/", (await app_client.get("/apps/shop/")).text)[1]
    for path in ("../secret.js", "%2e%2e/secret.js", "none.js"):
        assert (await app_client.get(f"/apps/shop/assets/{version}/{path}")).status_code in {404, 200}
        assert "not yours" not in (await app_client.get(f"/apps/shop/assets/{version}/{path}")).text


async def test_the_address_without_a_slash_leads_to_the_page(app_client):
    answer = await app_client.get("/apps/shop")
    assert (answer.status_code, answer.headers["location"]) == (307, "/apps/shop/")


async def test_the_address_without_a_slash_keeps_its_query(app_client):
    answer = await app_client.get("/apps/shop?q=rye")
    assert answer.headers["location"].endswith("/apps/shop/?q=rye")


async def test_the_console_names_the_pages_of_applications(app_client):
    page = (await app_client.get("/console/")).text
    assert "&quot;/apps/shop/&quot;" in page


async def test_the_data_of_a_page_need_a_login(app_client, database):
    assert (await app_client.get("/shop/orders")).status_code == 401
    key = await key_for(database, "tenant-viewer", "acme")
    assert (await app_client.post("/api/v1/session", json={"credential": key})).status_code == 201
    assert (await app_client.get("/shop/orders")).json() == ["bread"]


def test_other_routes_still_need_a_permission(shop_routers, database):
    open_route = APIRouter()
    open_route.add_api_route("/apps/shop/secret", lambda: "open", methods=["GET"])
    with pytest.raises(ConfigurationError, match="declares no permission"):
        create_app(Settings(database_url=database), [open_route, *shop_routers])


@pytest.mark.parametrize("name", ["", "Shop", "a/b", "..", "{x}"])
def test_a_name_that_is_no_part_of_a_url_is_rejected(name, tmp_path):
    with pytest.raises(ConfigurationError, match="invalid name"):
        app_pages(name, "Shop", tmp_path)
