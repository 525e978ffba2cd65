// The gallery of a tenant; operators choose the tenant first.
import { api, useApi } from "posthouse/api.js"
import { plural } from "posthouse/format.js"
import { html, useState } from "posthouse/preact.js"
import { clockOf } from "posthouse/pages/trigger-parts.js"
import { setQuery } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, Button, Card, EmptyState, Tag, Time } from "posthouse/components/display.js"
import { Field } from "posthouse/components/forms.js"
import { runWithToast } from "posthouse/components/toast.js"
import { Activity, Commands } from "./activity.js"
import { fileUrl, route, useLibrary } from "./library.js"
import { Picture, PictureDialog } from "./picture.js"
import { Upload } from "./upload.js"

const PAGE = 60
const MAX_SHOWN = 480

export function Gallery({ query }) {
  const session = useSession()
  const libraries = useApi(route("libraries"))
  return html`
    <div class="photos">
      <${AsyncContent} request=${libraries}>${(found) => (session.operator && !session.tenant
        ? html`<${Libraries} libraries=${found} onChoose=${session.chooseTenant} />`
        : found.length ? html`<${Library} query=${query} session=${session} />` : html`<${NewLibrary} session=${session} onDone=${libraries.reload} />`)}<//>
    </div>`
}

function Library({ query, session }) {
  const [limit, setLimit] = useState(PAGE)
  const [opened, setOpened] = useState(null)
  const keyword = query.tag
  const { libraries, pictures, jobs, reload } = useLibrary(keyword, limit)
  const library = libraries.data?.[0]
  return html`
    ${session.can("jobs:write") && html`<div class="photos-bar"><${Upload} onDone=${reload} albums=${albums(library)} /><${Commands} library=${library} jobs=${jobs.data?.items ?? []} onDone=${reload} /></div>`}
    <div class="photos-side-by-side">
      <${Card} title="Activity" aside=${html`<${NextSync} />`}><${Activity} jobs=${jobs} /><//>
      <${Card} title="Trained keywords"><${Models} library=${library} /><//>
    </div>
    <${Keywords} library=${library} keyword=${keyword} />
    <${AsyncContent} request=${pictures}>${({ items, total }) => (total
      ? html`
        <p class="faint" role="status">${plural(total, "picture")}${keyword && ` tagged “${keyword}”`}</p>
        <ul class="photos-grid" aria-label="Pictures">${items.map((picture) => html`<${Picture} key=${picture.id} picture=${picture} onOpen=${() => setOpened(picture.id)} />`)}</ul>
        ${total > items.length && limit < MAX_SHOWN && html`<div class="bar"><${Button} icon="down" onClick=${() => setLimit(limit + PAGE)}>Show more<//></div>`}
        <${PictureDialog} picture=${items.find(({ id }) => id === opened)} onClose=${() => setOpened(null)} />`
      : html`<${EmptyState} icon="layers" title=${keyword ? "No pictures with this tag" : "No pictures yet"}>Upload a picture, or copy files into the folder of the library. They appear here with their tags.<//>`)}<//>`
}

/** Albums are folders; their names are the keywords of the model. */
const albums = (library) => Object.keys(library?.models[0]?.keywords ?? {})

function Keywords({ library, keyword }) {
  const keywords = library?.keywords ?? []
  if (!keywords.length) return null
  const choose = (tag) => setQuery({ tag })
  return html`
    <div class="photos-keywords" role="group" aria-label="Filter by tag">
      <button type="button" class="chip" aria-pressed=${!keyword} onClick=${() => choose(null)}>All</button>
      ${keywords.map((each) => html`<button key=${each.keyword} type="button" class="chip" aria-pressed=${each.keyword === keyword} onClick=${() => choose(each.keyword)}>${each.keyword} <span class="figure">${each.pictures}</span></button>`)}
    </div>`
}

function Models({ library }) {
  const models = library?.models ?? []
  if (!models.length) return html`<p class="faint">Sort pictures into albums, at least three in each, then train: the names of the albums become keywords.</p>`
  return models.map(({ name, keywords }) => html`
    <p key=${name} class="photos-tags">${models.length > 1 && html`<b>${name}</b>`}${Object.entries(keywords).map(([keyword, accuracy]) => html`<${Tag} key=${keyword} title="Accuracy on the training pictures">${keyword} ${Math.round(100 * accuracy)} %<//>`)}</p>`)
}

const nightly = (triggers, tenant) => triggers.find((each) => each.definition_key === "photos.sync" && each.is_enabled && (!tenant || each.tenant_id === tenant))

/** The next scheduled sync in the time zone of the tenant. */
function NextSync({ tenant }) {
  const triggers = useApi("/jobs/triggers", { trigger_type: "schedule", limit: 100 }, { every: 30_000 })
  const next = nightly(triggers.data?.items ?? [], tenant)
  if (!next?.next_at) return triggers.data && html`<span class="faint photos-next">No sync is scheduled</span>`
  return html`<span class="faint photos-next">Next sync <b>${clockOf(next.next_at, next.timezone)}</b> ${next.timezone}, <${Time} at=${next.next_at} /></span>`
}

/** All tenants side by side, for operators. */
function Libraries({ libraries, onChoose }) {
  if (!libraries.length) return html`<${EmptyState} icon="layers" title="No libraries yet" command="posthouse demo photos">The demo creates two tenants with a library each. A tenant admin can also create one on this page.<//>`
  return html`<ul class="photos-libraries" aria-label="Libraries">${libraries.map((library) => html`
    <li key=${library.tenant_id} class="card">
      <div class="bar"><h2 class="grow">${library.tenant_id}</h2><span class="faint">${plural(library.pictures, "picture")}</span><${Button} onClick=${() => onChoose(library.tenant_id)}>Open<//></div>
      <${Newest} tenant=${library.tenant_id} />
      <${NextSync} tenant=${library.tenant_id} />
    </li>`)}</ul>`
}

function Newest({ tenant }) {
  const pictures = useApi(route("pictures"), { tenant, limit: 5 })
  return html`<div class="photos-newest">${(pictures.data?.items ?? []).map((picture) => html`<img key=${picture.id} alt="" loading="lazy" src=${fileUrl(picture, "thumbnail", tenant)} />`)}</div>`
}

function NewLibrary({ session, onDone }) {
  const [timezone, setTimezone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone)
  if (!session.can("triggers:write")) return html`<${EmptyState} icon="layers" title="No library yet">An admin of the tenant can create it on this page.<//>`
  const create = (event) => {
    event.preventDefault()
    runWithToast(() => api.post(route("libraries"), { timezone }).then(onDone), "Library created")
  }
  return html`
    <${EmptyState} icon="layers" title="Create the library" action=${html`
      <form class="photos-new" onSubmit=${create}>
        <${Field} label="Time zone" hint="Of the nightly sync, at 2 in the morning.">${(given) => html`
          <input ...${given} list="zones" required value=${timezone} onInput=${(event) => setTimezone(event.target.value)} />
          <datalist id="zones">${Intl.supportedValuesOf("timeZone").map((zone) => html`<option key=${zone} value=${zone} />`)}</datalist>`}<//>
        <${Button} strong type="submit">Create library<//>
      </form>`}>It gets a folder for pictures, and triggers that sync it when the folder changes and every night.<//>`
}
