// Dialog that enqueues a job, with a form generated from the payload schema of its kind.
import { api, useApi } from "../api.js"
import { html, useState } from "../preact.js"
import { link, navigate } from "../router.js"
import { useSession } from "../session.js"
import { Dialog } from "./dialog.js"
import { AsyncContent, EmptyState } from "./display.js"
import { defaultsOf, NumberField, SchemaForm, SelectField, TextField } from "./forms.js"
import { toast } from "./toast.js"

/** `kind` and `payload` prefill the form, for example to run a job again; `note` is shown above it. */
export function EnqueueDialog({ onClose, kind: givenKind = "", payload: givenPayload, extra = {}, note }) {
  const session = useSession()
  const kinds = useApi("/definitions", { limit: 200 })
  const [kind, setKind] = useState(givenKind)
  const [payload, setPayload] = useState(givenPayload)
  const [more, setMore] = useState({ priority: "", delay_seconds: null, subject: extra.subject ?? "", dedupe_key: "" })
  const [errors, setErrors] = useState({})
  const chosen = kinds.data?.items.find(({ key }) => key === kind)
  const choose = (key) => {
    setKind(key)
    setErrors({})
    setPayload(defaultsOf(kinds.data.items.find((each) => each.key === key)?.arg_schema))
  }
  const send = async () => {
    const options = Object.fromEntries(Object.entries(more).filter(([, value]) => value !== "" && value !== null))
    const query = session.operator ? { tenant: session.tenant ?? extra.tenant } : {}
    try {
      const made = await api.post("/jobs", { definition_key: kind, payload: payload ?? {}, ...options }, { query })
      toast(made.outcome === "created" ? "Job enqueued" : "A job with this dedupe key already exists")
      navigate(link(`jobs/${made.id}`))
    } catch (error) {
      setErrors(byPath(error.errors))
      throw error
    }
  }
  return html`
    <${Dialog} title=${givenPayload ? "Run again" : "Enqueue a job"} onClose=${onClose} onSubmit=${send} submitText="Enqueue" disabled=${!kind || payload === null} wide>
      <${AsyncContent} request=${kinds} lines=${4}>${({ items }) => items.length === 0
        ? html`<${EmptyState} title="No job kinds yet" command="posthouse worker --app shop:app">Job kinds appear here when a worker with their handlers starts.<//>`
        : html`
          ${note && html`<p>${note}</p>`}
          <${SelectField} label="Kind" value=${kind} onChange=${choose} options=${[["", "Choose a kind"], ...items.filter((each) => each.is_active).map(({ key }) => [key])]} hint=${chosen?.description} />
          ${kind && html`<${SchemaForm} key=${kind} schema=${chosen?.arg_schema} value=${payload ?? {}} onChange=${(next, broken) => setPayload(broken ? null : next ?? {})} errors=${errors} />
          <details class="more"><summary>Scheduling options</summary><div class="columns">
            <${SelectField} label="Priority" value=${more.priority} onChange=${(priority) => setMore({ ...more, priority })} options=${[["", "Default of the kind"], ["urgent"], ["high"], ["normal"], ["low"]]} />
            <${NumberField} label="Delay in seconds" min="0" value=${more.delay_seconds} onChange=${(delay_seconds) => setMore({ ...more, delay_seconds })} />
            <${TextField} label="Subject" value=${more.subject} onChange=${(subject) => setMore({ ...more, subject })} hint="The object the job is about. Jobs can be filtered by subject." />
            <${TextField} label="Dedupe key" value=${more.dedupe_key} onChange=${(dedupe_key) => setMore({ ...more, dedupe_key })} hint="Only one active job per key." />
          </div></details>`}`}<//>
    <//>`
}

/** {field: message} of the validation errors of a payload. */
function byPath(errors = []) {
  return Object.fromEntries(errors.map((each) => [String(each.path ?? each.field ?? each.loc ?? "").replace(/^(body|payload)[./]?/, "").split(/[./[]/)[0], each.message ?? each.msg]))
}
