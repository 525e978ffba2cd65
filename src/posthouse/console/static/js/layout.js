// Layout of every page, of the console and of applications: navigation, tenant picker, session and shortcuts.
import { api, configure } from "./api.js"
import { Button, EmptyState, ErrorBanner, Snippet } from "./components/display.js"
import { Field } from "./components/forms.js"
import { Icon } from "./components/icons.js"
import { Toasts } from "./components/toast.js"
import { cls, html, render, useEffect, useMemo, useState } from "./preact.js"
import { handleLinkClick, link, matchRoute, useLocation } from "./router.js"
import { loadSelectedTenant, logIn, logOut, restoreSession, saveSelectedTenant, SessionContext, useSession } from "./session.js"

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
        <a class="brand" href=${link("")}><${Logo} /><span>${name}</span></a>
        <nav aria-label="Pages">
          ${sections.filter((each) => !each.needs || session.can(each.needs)).map((each) => html`
            <a key=${each.text} href=${each.href ?? link(each.path)} aria-current=${each.name && each.name === section ? "page" : undefined}>
              <${Icon} name=${each.icon} /><span>${each.text}</span>
            </a>`)}
        </nav>
        <${UserMenu} session=${session} />
      </aside>
      <div class="scrim" onClick=${() => setOpen(false)}></div>
      <div class="column">
        <header class="top">
          <${Button} plain class="burger" label="Menu" icon="menu" onClick=${() => setOpen(!open)} aria-expanded=${open} aria-controls="navigation" />
          <h1>${title}</h1>
          <${TenantPicker} session=${session} />
          ${actions}
        </header>
        <main id="content" tabindex="-1">${children}</main>
      </div>
    </div>
  `
}

const Logo = () => html`
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <path d="M8 22V10.500A1.500 1.500 0 0 1 9.500 9H17a6 6 0 0 1 0 12h-4" /><circle cx="22.500" cy="23" r="2.200" />
  </svg>`

/** Operators see all tenants, or select one. */
function TenantPicker({ session }) {
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

function UserMenu({ session }) {
  return html`
    <div class="user-menu">
      <${ThemeToggle} />
      <div class="account"><b title=${session.name}>${session.name}</b><small>${session.role.replace("-", " ")}</small></div>
      <${Button} plain label="Log out" icon="exit" onClick=${session.logOut} />
    </div>`
}

const THEMES = { auto: ["contrast", "System theme"], light: ["sun", "Light theme"], dark: ["moon", "Dark theme"] }

function ThemeToggle() {
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

// Loads the session, or shows the login form, and then the page that the URL names.

function Pages({ routes, shell, name }) {
  const [session, setSession] = useState(undefined)
  const [trouble, setTrouble] = useState(null)
  const [tenant, setTenant] = useState(loadSelectedTenant)
  const load = () => restoreSession().then(setSession, setTrouble)
  useEffect(() => {
    load()
    configure({ onUnauthorized: () => setSession(null) })
  }, [])
  configure({ tenant: session?.operator ? tenant : null })
  const known = useMemo(() => session && ({
    ...session,
    tenant: session.operator ? tenant : session.tenant_id,
    chooseTenant: (id) => {
      saveSelectedTenant(id)
      setTenant(id)
    },
    logOut: () => logOut().finally(() => setSession(null)),
  }), [session, tenant])
  if (trouble) return html`<main class="centered-page"><${ErrorBanner} error=${trouble} onRetry=${() => { setTrouble(null); load() }} /></main>`
  if (session === undefined) return html`<main class="centered-page" aria-busy="true"></main>`
  if (session === null) return html`<${Login} onDone=${setSession} />`
  return html`<${SessionContext.Provider} value=${known}><${Page} key=${tenant ?? ""} routes=${routes} shell=${shell} name=${name} /><${Toasts} /><//>`
}

function Page({ routes, shell: Shell, name }) {
  const { path, query } = useLocation()
  for (const { pattern, page: Shown, title, section } of routes) {
    const found = matchRoute(pattern, path)
    if (found) {
      document.title = `${title} · ${name}`
      return html`<${Shell} section=${section} title=${title}><${Shown} ...${found} query=${query} /><//>`
    }
  }
  return html`<${Shell} title="Not found"><${EmptyState} title="Page not found">The link may be outdated.<//><//>`
}

/** `routes`: {pattern, page, title, section}; `shell`: the layout around each page; `name`: the end of the title. */
export function start({ routes, shell, name }) {
  document.addEventListener("click", handleLinkClick)
  render(html`<${Pages} routes=${routes} shell=${shell} name=${name} />`, document.getElementById("app"))
}

function Login({ onDone }) {
  const [credential, setCredential] = useState("")
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    try {
      onDone(await logIn(credential.trim()))
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return html`
    <main class="centered-page">
      <form class="login card" onSubmit=${submit}>
        <div class="bar"><${Logo} /><h1>Posthouse</h1></div>
        <p class="faint">Log in with an API key, the admin secret, or a JWT from your identity provider.</p>
        <${Field} label="Key">${(given) => html`<input type="password" autocomplete="current-password" autofocus required ...${given} value=${credential} onInput=${(event) => setCredential(event.target.value)} />`}<//>
        ${error && html`<${ErrorBanner} error=${error} />`}
        <${Button} strong type="submit" busy=${busy} disabled=${!credential.trim()}>Log in<//>
        <p class="faint">No key yet? Create one on the machine that runs Posthouse:</p>
        <${Snippet} text="posthouse keys create me --role super-admin" />
      </form>
    </main>`
}
