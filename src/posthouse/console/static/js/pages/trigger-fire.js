// Dialog that fires a trigger manually.
import { api } from "../api.js"
import { html, useState } from "../lib.js"
import { Dialog } from "../ui/dialog.js"
import { Json } from "../ui/json.js"
import { toast } from "../ui/toast.js"
import { useTrial } from "../ui/trial.js"
import { Faults } from "./trigger-payload.js"
import { LATEST, sampleBody, SampleChoice } from "./trigger-sample.js"
import { nameOf } from "./trigger-parts.js"

export function FireDialog({ trigger, close, done }) {
  const [sample, setSample] = useState(LATEST)
  const scheduled = trigger.trigger_type === "schedule"
  const query = { tenant: trigger.tenant_id }
  const trial = useTrial("/jobs/triggers/preview", { trigger_id: trigger.id, runs: 0, ...sampleBody(sample) }, query).data
  const fire = async () => {
    const event = scheduled ? {} : sample.id === "" ? { event_id: trial?.event?.id } : sampleBody(sample)
    const made = await api.post(`/jobs/triggers/${trigger.id}/fire`, event, { query })
    toast(made.outcome === "fired" ? `Trigger “${nameOf(trigger)}” created a job` : made.reason, { tone: made.outcome === "fired" ? "good" : "warn" })
    done()
  }
  const ready = scheduled ? trial : trial?.matched && trial.event
  return html`
    <${Dialog} title=${`Fire “${nameOf(trigger)}” now`} close=${close} act=${fire} actText="Fire" disabled=${!ready} wide>
      <p>${scheduled ? "Creates the job now, in addition to its scheduled runs." : "Creates the job from this event now. A hand-written event is not sent to other triggers."} ${!trigger.is_enabled && "The trigger stays paused."}</p>
      ${!scheduled && html`<${SampleChoice} sample=${sample} change=${setSample} pattern=${trigger.event_name} tenant=${trigger.tenant_id} seen=${trial?.event} />`}
      ${trial?.reason && html`<p class="faint">${trial.reason}</p>`}
      ${trial?.payload && html`<div><h3>Job payload</h3><${Json} value=${trial.payload} label="payload" copy=${false} /></div>`}
      <${Faults} faults=${trial?.payload_errors} />
    <//>`
}
