// Sets a trigger off by hand.
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
  const scheduled = trigger.type === "schedule"
  const query = { tenant: trigger.tenant_id }
  const trial = useTrial("/jobs/triggers/preview", { trigger_id: trigger.id, runs: 0, ...sampleBody(sample) }, query).data
  const fire = async () => {
    const event = scheduled ? {} : sample.id === "" ? { event_id: trial?.event?.id } : sampleBody(sample)
    const made = await api.post(`/jobs/triggers/${trigger.id}/fire`, event, { query })
    toast(made.outcome === "fired" ? `${nameOf(trigger)} made a job` : made.reason, { tone: made.outcome === "fired" ? "good" : "warn" })
    done()
  }
  const ready = scheduled ? trial : trial?.matched && trial.event
  return html`
    <${Dialog} title=${`Fire “${nameOf(trigger)}” now`} close=${close} act=${fire} actText="Fire" disabled=${!ready} wide>
      <p>${scheduled ? "It makes its job at once, besides its usual times." : "It makes its job at once of this event. No other trigger gets to see one that you write."} ${!trigger.enabled && "It stays paused."}</p>
      ${!scheduled && html`<${SampleChoice} sample=${sample} change=${setSample} pattern=${trigger.event_name} tenant=${trigger.tenant_id} seen=${trial?.event} />`}
      ${trial?.reason && html`<p class="faint">${trial.reason}</p>`}
      ${trial?.payload && html`<div><h3>Payload of the job</h3><${Json} value=${trial.payload} label="payload" copy=${false} /></div>`}
      <${Faults} faults=${trial?.payload_errors} />
    <//>`
}
