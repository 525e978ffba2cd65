// Column of a job table: cancel or retry a job, and open its attempts and logs.
import { html, useState } from "posthouse/preact.js"
import { ConfirmCancel, isOver, isWaiting, useActions } from "posthouse/pages/job-state.js"
import { link } from "posthouse/router.js"
import { Button } from "posthouse/components/display.js"
import { Icon } from "posthouse/components/icons.js"

/** `may`: whether the user may change jobs. Changes arrive with the event stream of the table. */
export const actionsColumn = (may) => ({
  name: "actions", text: "Actions", align: "right", cell: (job) => html`<${RowActions} job=${job} canChange=${may} />`,
})

function RowActions({ job, canChange }) {
  const { busy, cancel, retry } = useActions(job)
  const [asking, setAsking] = useState(false)
  return html`
    <span class="row-actions">
      ${canChange && !isOver(job) && html`<${Button} small plain icon="stop" label="Cancel" busy=${busy} onClick=${() => (isWaiting(job) ? cancel() : setAsking(true))} />`}
      ${canChange && isOver(job) && job.status !== "succeeded" && html`<${Button} small plain icon="retry" label="Retry" busy=${busy} onClick=${() => retry()} />`}
      <a class="button small plain only-icon" aria-label="Attempts and logs" title="Attempts and logs" href=${link(`jobs/${job.id}`)}><${Icon} name="right" /></a>
    </span>
    ${asking && html`<${ConfirmCancel} onSubmit=${cancel} onClose=${() => setAsking(false)} />`}`
}
