// Layout of every page, of the console and of applications: navigation, tenant picker, session and shortcuts.
import { api } from "./api.js"
import { html, cls, useEffect, useState } from "./lib.js"
import { link, useLocation } from "./router.js"
import { useSession } from "./session.js"
import { Button } from "./ui/basics.js"
import { Icon } from "./ui/icons.js"

/**
 * `sections`: {name, path or href, text, icon, needs} of the navigation, where `needs` is a permission. `actions`: buttons
 * in the header. `keys`: shortcuts and their functions.
 */
export function Frame({ name, sections, section, title, actions, keys = {}, children }) {
  const session = useSession()
  const [open, setOpen] = useState(false)
  const { path } = useLocation()
  useEffect(() => setOpen(false), [path])
  useShortcuts(keys)
  return html`
    <a class="skip" href="#content" target="_self">Skip to content</a>
    <div class=${cls("shell", open && "shell-open")}>
      <aside class="side" id="navigation">
        <a class="brand" href=${link("")}><${Mark} /><span>${name}</span></a>
        <nav aria-label="Pages">
          ${sections.filter((each) => !each.needs || session.can(each.needs)).map((each) => html`
            <a key=${each.text} href=${each.href ?? link(each.path)} aria-current=${each.name === section ? "page" : undefined}>
              <${Icon} name=${each.icon} /><span>${each.text}</span>
            </a>`)}
        </nav>
        <${Whoami} session=${session} />
      </aside>
      <div class="scrim" onClick=${() => setOpen(false)}></div>
      <div class="column">
        <header class="top">
          <${Button} plain class="burger" label="Menu" icon="menu" onClick=${() => setOpen(!open)} aria-expanded=${open} aria-controls="navigation" />
          <h1>${title}</h1>
          <${TenantChoice} session=${session} />
          ${actions}
        </header>
        <main id="content" tabindex="-1">${children}</main>
      </div>
    </div>
  `
}

export const Mark = () => html`
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <path d="M8 22V10.500A1.500 1.500 0 0 1 9.500 9H17a6 6 0 0 1 0 12h-4" /><circle cx="22.500" cy="23" r="2.200" />
  </svg>`

/** Operators see all tenants, or select one. */
function TenantChoice({ session }) {
  const [tenants, setTenants] = useState([])
  const chooses = session.operator && session.can("tenants:read")
  useEffect(() => {
    if (chooses) api.get("/admin/tenants").then(setTenants, () => {})
  }, [chooses])
  if (!chooses) return session.tenant_id && html`<span class="tag" title="Your tenant">${session.tenant_id}</span>`
  if (tenants.length < 2 && !session.tenant) return null
  return html`
    <label class="tenant"><span class="hidden">Tenant</span>
      <select value=${session.tenant ?? ""} onChange=${(event) => session.chooseTenant(event.target.value || null)}>
        <option value="">All tenants</option>
        ${tenants.map(({ id, label }) => html`<option key=${id} value=${id}>${label || id}</option>`)}
      </select>
    </label>`
}

function Whoami({ session }) {
  return html`
    <div class="whoami">
      <${ThemeChoice} />
      <div class="who"><b title=${session.name}>${session.name}</b><small>${session.role.replace("-", " ")}</small></div>
      <${Button} plain label="Log out" icon="exit" onClick=${session.logOut} />
    </div>`
}

const THEMES = { auto: ["contrast", "System theme"], light: ["sun", "Light theme"], dark: ["moon", "Dark theme"] }

function ThemeChoice() {
  const [theme, setTheme] = useState(() => document.documentElement.dataset.theme || "auto")
  const next = { auto: "light", light: "dark", dark: "auto" }[theme]
  const change = () => {
    document.documentElement.dataset.theme = next
    try { localStorage.setItem("posthouse.theme", next) } catch { /* no storage: kept for this page only */ }
    setTheme(next)
  }
  return html`<${Button} plain icon=${THEMES[theme][0]} label=${`${THEMES[theme][1]}. Switch theme`} onClick=${change} />`
}

/** Single-key shortcuts outside of text fields. "/" focuses the filter of the page. */
function useShortcuts(keys) {
  useEffect(() => {
    const pressed = (event) => {
      const writing = event.target.closest("input, textarea, select, dialog, [contenteditable]")
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === "/") {
        const filter = document.querySelector("[data-filter]")
        if (filter) {
          event.preventDefault()
          filter.focus()
        }
      } else if (keys[event.key]) {
        event.preventDefault()
        keys[event.key]()
      }
    }
    addEventListener("keydown", pressed)
    return () => removeEventListener("keydown", pressed)
  })
}
