// Loads the session, or shows the login form, and then the page that the URL names.
import { configure } from "./api.js"
import { html, render, useEffect, useMemo, useState } from "./lib.js"
import { followLinks, match, useLocation } from "./router.js"
import { begin, logOut, remembered, rememberTenant, SessionContext } from "./session.js"
import { Login } from "./pages/login.js"
import { Empty, Failure } from "./ui/basics.js"
import { Toasts } from "./ui/toast.js"

function Pages({ routes, shell, name }) {
  const [session, setSession] = useState(undefined)
  const [trouble, setTrouble] = useState(null)
  const [tenant, setTenant] = useState(remembered)
  const load = () => begin().then(setSession, setTrouble)
  useEffect(() => {
    load()
    configure({ onLogout: () => setSession(null) })
  }, [])
  configure({ tenant: session?.operator ? tenant : null })
  const known = useMemo(() => session && ({
    ...session,
    tenant: session.operator ? tenant : session.tenant_id,
    chooseTenant: (id) => {
      rememberTenant(id)
      setTenant(id)
    },
    logOut: () => logOut().finally(() => setSession(null)),
  }), [session, tenant])
  if (trouble) return html`<main class="alone"><${Failure} error=${trouble} retry=${() => { setTrouble(null); load() }} /></main>`
  if (session === undefined) return html`<main class="alone" aria-busy="true"></main>`
  if (session === null) return html`<${Login} done=${setSession} />`
  return html`<${SessionContext.Provider} value=${known}><${Page} key=${tenant ?? ""} routes=${routes} shell=${shell} name=${name} /><${Toasts} /><//>`
}

function Page({ routes, shell: Shell, name }) {
  const { path, query } = useLocation()
  for (const { pattern, page: Shown, title, section } of routes) {
    const found = match(pattern, path)
    if (found) {
      document.title = `${title} · ${name}`
      return html`<${Shell} section=${section} title=${title}><${Shown} ...${found} query=${query} /><//>`
    }
  }
  return html`<${Shell} title="Not found"><${Empty} title="Page not found">The link may be outdated.<//><//>`
}

/** `routes`: {pattern, page, title, section}; `shell`: the layout around each page; `name`: the end of the title. */
export function start({ routes, shell, name }) {
  document.addEventListener("click", followLinks)
  render(html`<${Pages} routes=${routes} shell=${shell} name=${name} />`, document.getElementById("app"))
}
