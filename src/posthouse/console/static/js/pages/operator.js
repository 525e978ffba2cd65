// Operator page: tenants, keys, audit log, health, alerts, settings and retention.
import { html } from "../lib.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Empty, Tabs } from "../ui/basics.js"
import { Alerts } from "./operator-alerts.js"
import { Audit } from "./operator-audit.js"
import { Doctor } from "./operator-doctor.js"
import { Keys } from "./operator-keys.js"
import { Retention, Settings } from "./operator-setup.js"
import { Tenants } from "./operator-tenants.js"

const TABS = [
  { name: "tenants", text: "Tenants", needs: "tenants:read", page: Tenants },
  { name: "keys", text: "Keys", needs: "keys:read", page: Keys },
  { name: "audit", text: "Audit log", needs: "audit:read", page: Audit },
  { name: "doctor", text: "Doctor", needs: "overview:read", page: Doctor },
  { name: "alerts", text: "Alerts", needs: "jobs:read", page: Alerts },
  { name: "settings", text: "Settings", needs: "overview:read", page: Settings },
  { name: "retention", text: "Retention", needs: "overview:read", page: Retention },
]

export function Operator({ tab, query }) {
  const session = useSession()
  const tabs = TABS.filter(({ needs }) => session.can(needs)).map((each) => ({ ...each, href: link(`operator/${each.name}`) }))
  const now = tab ? tabs.find(({ name }) => name === tab) : tabs[0]
  return html`
    <${Tabs} label="Operator" tabs=${tabs} now=${now?.name} />
    ${now ? html`<${now.page} query=${query} />` : html`<${Empty} title="Access denied">Your role cannot view this page. Log in with another key or ask an operator.<//>`}`
}
