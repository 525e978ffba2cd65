// Health checks of the database and the queues: finding, meaning and advice.
import { useApi } from "../api.js"
import { html, useState } from "../lib.js"
import { plural, words } from "../format.js"
import { Button, Card, Loaded, Tag } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { Table } from "../ui/table.js"

const LIGHTS = {
  ok: ["good", "check", "Healthy", "All checks of the database and the queues passed."],
  warning: ["warn", "alert", "Warnings", "Jobs are running. These warnings need attention."],
  critical: ["bad", "alert", "Critical", "Jobs are delayed or at risk. Fix the critical findings first."],
}
const TONES = { ok: "good", warning: "warn", error: "bad" }
const MOST_ROWS = 20

export function Doctor() {
  const doctor = useApi("/admin/doctor", {}, { every: 30_000 })
  const [busy, setBusy] = useState(false)
  const again = async () => {
    setBusy(true)
    await doctor.reload()
    setBusy(false)
  }
  return html`
    <${Loaded} from=${doctor} lines=${8}>${({ light, findings }) => {
      const [tone, icon, title, text] = LIGHTS[light] ?? LIGHTS.warning
      const sick = findings.filter(({ severity }) => severity !== "ok").sort((one) => (one.severity === "error" ? -1 : 1))
      const healthy = findings.filter(({ severity }) => severity === "ok")
      return html`
        <div class="banner" data-tone=${tone} role="status"><${Icon} name=${icon} /><div class="grow"><h2>${title}</h2><p>${text}</p></div>
          <${Button} icon="retry" busy=${busy} onClick=${again}>Run checks again<//></div>
        ${sick.map((finding) => html`<${Finding} key=${finding.check + finding.summary} finding=${finding} />`)}
        <${Card}><details class="more" open=${sick.length === 0}><summary>${plural(healthy.length, "passed check")}</summary><div>
          <ul class="lines healthy">${healthy.map((finding) => html`<li key=${finding.check + finding.summary} data-tone="good"><${Icon} name="check" /><div><span>${finding.summary}</span><small>${words(finding.check)}</small></div></li>`)}</ul>
        </div></details><//>`
    }}<//>`
}

const Finding = ({ finding }) => html`
  <${Card} class="finding" data-tone=${TONES[finding.severity]}>
    <div class="bar"><${Tag} tone=${TONES[finding.severity]}>${finding.severity}<//><span class="faint">${words(finding.check)}</span></div>
    <h2>${finding.summary}</h2>
    ${finding.meaning && html`<p>${finding.meaning}</p>`}
    ${finding.advice && html`<p class="advice"><${Icon} name="right" /><span>${finding.advice}</span></p>`}
    ${finding.evidence.length > 0 && html`<details class="more"><summary>${plural(finding.evidence.length, "row")} of evidence</summary><div><${Evidence} rows=${finding.evidence} /></div></details>`}
  <//>`

function Evidence({ rows }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value))
  const columns = names.map((name) => ({ name, text: words(name), align: typeof rows[0][name] === "number" ? "right" : undefined, cell: (row) => html`<span class="evidence">${shown(row[name])}</span>` }))
  return html`<${Table} label="Evidence" rows=${rows.slice(0, MOST_ROWS)} rowKey=${(row) => rows.indexOf(row)} columns=${columns} />
    ${rows.length > MOST_ROWS && html`<small>${rows.length - MOST_ROWS} more rows: run posthouse doctor --json.</small>`}`
}
