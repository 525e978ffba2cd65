// The page /apps: the applications of this server, their pages and demos. The first page for new users.
// Links to their pages have a target, because the router would take paths below /apps/ for its own.
import { api, site, useApi } from "posthouse/api.js"
import { startApp } from "posthouse/app.js"
import { html, useEffect, useState } from "posthouse/preact.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, Button, Card, DescriptionList, EmptyState, ErrorBanner, Progress, Status, Time } from "posthouse/components/display.js"
import { Icon } from "posthouse/components/icons.js"
import { formatInteger, humanize } from "posthouse/format.js"

const ACTIVE = ["queued", "running"]
const isActive = ({ demo }) => ACTIVE.includes(demo?.status)

function Apps() {
  const [every, setEvery] = useState(5000)
  const apps = useApi("/apps", {}, { every })
  useEffect(() => setEvery(apps.data?.some(isActive) ? 1000 : 5000), [apps.data])
  return html`
    <p class="faint">Each application is a package on Posthouse with jobs and routes of its own. Run a demo to fill it with data.</p>
    <${AsyncContent} request=${apps} lines=${8}>${(list) => list.length
      ? html`<div class="apps">${list.map((app) => html`<${App} key=${app.name} app=${app} reload=${apps.reload} />`)}</div>`
      : html`<${EmptyState} title="No applications" command="posthouse up">Applications with pages or demos appear here.<//>`}<//>`
}

function App({ app, reload }) {
  const { name, title, summary, page, demo } = app
  return html`
    <${Card} title=${title} aria-label=${title} class="app">
      <p>${summary}</p>
      <div class="bar">
        ${page && html`<a class="button" target="_self" href=${site(page)}><${Icon} name="right" /><span>Open ${title}</span></a>`}
        <${RunDemo} app=${app} reload=${reload} />
      </div>
      ${demo && html`<${Demo} name=${name} demo=${demo} />`}
    <//>`
}

function RunDemo({ app, reload }) {
  const { name, demo, has_demo: hasDemo } = app
  const session = useSession()
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  if (!session.can("demos:run")) return null
  if (!hasDemo) return html`<span class="faint">Start the server with <code>posthouse up</code> to run the demo.</span>`
  const run = async () => {
    setBusy(true)
    setError(null)
    await api.post(`/apps/${name}/demo`, {}).then(reload, setError)
    setBusy(false)
  }
  return html`
    <${Button} strong icon="play" busy=${busy || isActive(app)} onClick=${run}>${demo ? "Run the demo again" : "Run the demo"}<//>
    ${error && html`<${ErrorBanner} error=${error} />`}`
}

function Demo({ name, demo }) {
  const { id, status, progress_percent: percent, current_step: step, progress_message: message, last_error: error, result } = demo
  return html`
    <section class="app-demo" aria-label=${`Demo of ${name}`}>
      <div class="bar">
        <${Status} status=${status} /><${Time} at=${demo.finished_at ?? demo.queued_at} />
        <span class="grow"></span><a href=${site(`/console/jobs/${id}`)}>Job and log</a>
      </div>
      ${ACTIVE.includes(status) && html`
        <${Progress} percent=${percent ?? 0} label="Progress of the demo" />
        <p class="clip">${[step, message].filter(Boolean).join(": ") || (status === "queued" ? "Waiting for a worker" : "Starting")}</p>`}
      ${error && status !== "succeeded" && html`<p class="bad">${error}</p>`}
      ${result?.links.length > 0 && html`<${Links} links=${result.links} />`}
      ${result && html`<${DescriptionList} items=${result.figures.map(([key, value]) => [humanize(key), html`<${Written} text=${written(value)} />`])} />`}
    </section>`
}

const Links = ({ links }) => html`
  <ul class="app-links" aria-label="Open the result">${links.map(([text, path]) => html`
    <li key=${path}><a target="_self" href=${site(path)}>${text}</a></li>`)}</ul>`

/** Long values take a row of their own. */
const LONG = 60
const Written = ({ text }) => html`<span class=${text.length > LONG ? "long" : undefined}>${text}</span>`

/** A value of the result as text. */
function written(value) {
  if (Number.isInteger(value)) return formatInteger(value)
  if (Array.isArray(value)) return value.map(written).join(", ")
  if (value && typeof value === "object") return Object.entries(value).map(([key, each]) => `${key}: ${written(each)}`).join(", ")
  return String(value)
}

startApp({ name: "Posthouse", routes: [{ pattern: "", page: Apps, title: "Applications", section: "apps" }] })
