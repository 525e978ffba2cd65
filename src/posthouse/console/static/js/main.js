// Entry point of the console: loads the session and shows the page that the URL names.
import { configure } from "./api.js"
import { html, render, useEffect, useMemo, useState } from "./lib.js"
import { followLinks, match, useLocation } from "./router.js"
import { begin, logOut, remembered, rememberTenant, SessionContext } from "./session.js"
import { Shell } from "./shell.js"
import { Login } from "./pages/login.js"
import { ROUTES } from "./routes.js"
import { Empty, Failure } from "./ui/basics.js"
import { Toasts } from "./ui/toast.js"

function Console() {
  const [session, setSession] = useState(undefined)
  const [trouble, setTrouble] = useState(null)
  const [tenant, setTenant] = useState(remembered)
  const start = () => begin().then(setSession, setTrouble)
  useEffect(() => {
    start()
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
  if (trouble) return html`<main class="alone"><${Failure} error=${trouble} retry=${() => { setTrouble(null); start() }} /></main>`
  if (session === undefined) return html`<main class="alone" aria-busy="true"></main>`
  if (session === null) return html`<${Login} done=${setSession} />`
  return html`<${SessionContext.Provider} value=${known}><${Page} key=${tenant ?? ""} /><${Toasts} /><//>`
}

function Page() {
  const { path, query } = useLocation()
  for (const { pattern, page: Shown, title, section } of ROUTES) {
    const found = match(pattern, path)
    if (found) {
      document.title = `${title} · Posthouse`
      return html`<${Shell} section=${section} title=${title}><${Shown} ...${found} query=${query} /><//>`
    }
  }
  return html`<${Shell} title="Not found"><${Empty} title="Page not found">The link may be outdated.<//><//>`
}

document.addEventListener("click", followLinks)
render(html`<${Console} />`, document.getElementById("app"))
