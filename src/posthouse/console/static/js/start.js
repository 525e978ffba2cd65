// Loads the session, or shows the login form, and then the page that the URL names.
import { configure } from "./api.js"
import { Mark } from "./frame.js"
import { html, render, useEffect, useMemo, useState } from "./lib.js"
import { followLinks, match, useLocation } from "./router.js"
import { begin, logIn, logOut, remembered, rememberTenant, SessionContext } from "./session.js"
import { Button, Empty, Failure, Snippet } from "./ui/basics.js"
import { Field } from "./ui/fields.js"
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

function Login({ done }) {
  const [credential, setCredential] = useState("")
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    try {
      done(await logIn(credential.trim()))
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return html`
    <main class="alone">
      <form class="login card" onSubmit=${submit}>
        <div class="bar"><${Mark} /><h1>Posthouse</h1></div>
        <p class="faint">Log in with an API key, the admin secret, or a JWT from your identity provider.</p>
        <${Field} label="Key">${(given) => html`<input type="password" autocomplete="current-password" autofocus required ...${given} value=${credential} onInput=${(event) => setCredential(event.target.value)} />`}<//>
        ${error && html`<${Failure} error=${error} />`}
        <${Button} strong type="submit" busy=${busy} disabled=${!credential.trim()}>Log in<//>
        <p class="faint">No key yet? Create one on the machine that runs Posthouse:</p>
        <${Snippet} text="posthouse keys create me --role super-admin" />
      </form>
    </main>`
}
