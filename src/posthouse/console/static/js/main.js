// Entry point of the console, and the layout of its pages.
import { site } from "./api.js"
import { Button } from "./components/display.js"
import { EnqueueDialog } from "./components/enqueue-dialog.js"
import { Frame, start } from "./layout.js"
import { Definitions } from "./pages/definitions.js"
import { Failures } from "./pages/failures.js"
import { Job } from "./pages/job.js"
import { Jobs } from "./pages/jobs.js"
import { Operator } from "./pages/operator.js"
import { Overview } from "./pages/overview.js"
import { Queues } from "./pages/queues.js"
import { Triggers } from "./pages/triggers.js"
import { Workers } from "./pages/workers.js"
import { html, useState } from "./preact.js"
import { useSession } from "./session.js"

const SECTIONS = [
  { name: "overview", path: "", text: "Overview", icon: "pulse", needs: "jobs:read" },
  { name: "jobs", path: "jobs", text: "Jobs", icon: "list", needs: "jobs:read" },
  { name: "failures", path: "failures", text: "Failures", icon: "alert", needs: "jobs:read" },
  { name: "workers", path: "workers", text: "Workers", icon: "cpu", needs: "workers:read" },
  { name: "queues", path: "queues", text: "Queues", icon: "layers", needs: "jobs:read" },
  { name: "triggers", path: "triggers", text: "Triggers", icon: "clock", needs: "triggers:read" },
  { name: "definitions", path: "definitions", text: "Definitions", icon: "braces", needs: "definitions:read" },
  { name: "operator", path: "operator", text: "Operator", icon: "sliders", needs: "audit:read" },
]

const ROUTES = [
  { pattern: "", page: Overview, title: "Overview", section: "overview" },
  { pattern: "jobs", page: Jobs, title: "Jobs", section: "jobs" },
  { pattern: "jobs/:id", page: Job, title: "Job", section: "jobs" },
  { pattern: "failures", page: Failures, title: "Failures", section: "failures" },
  { pattern: "failures/:fingerprint", page: Failures, title: "Failure group", section: "failures" },
  { pattern: "workers", page: Workers, title: "Workers", section: "workers" },
  { pattern: "queues", page: Queues, title: "Queues and limits", section: "queues" },
  { pattern: "triggers", page: Triggers, title: "Triggers", section: "triggers" },
  { pattern: "triggers/:id", page: Triggers, title: "Trigger", section: "triggers" },
  { pattern: "definitions", page: Definitions, title: "Definitions", section: "definitions" },
  { pattern: "definitions/:name", page: Definitions, title: "Definition", section: "definitions" },
  { pattern: "operator", page: Operator, title: "Operator", section: "operator" },
  { pattern: "operator/:tab", page: Operator, title: "Operator", section: "operator" },
]

/** The applications that this server runs, and their pages. */
const APPS = JSON.parse(document.documentElement.dataset.apps).map(([text, path]) => ({ href: site(path), text, icon: path === "/apps/" ? "star" : "window" }))

function Shell({ section, title, children }) {
  const session = useSession()
  const [enqueueing, setEnqueueing] = useState(false)
  const enqueue = () => session.can("jobs:write") && setEnqueueing(true)
  const actions = session.can("jobs:write") && html`<${Button} strong class="enqueue" icon="plus" aria-label="Enqueue" title="Enqueue a job (n)" onClick=${enqueue}>Enqueue<//>`
  return html`
    <${Frame} name="Posthouse" sections=${[...SECTIONS, ...APPS]} section=${section} title=${title} actions=${actions} keys=${{ n: enqueue }}>${children}<//>
    ${enqueueing && html`<${EnqueueDialog} onClose=${() => setEnqueueing(false)} />`}
  `
}

start({ routes: ROUTES, shell: Shell, name: "Posthouse" })
