// The current session and its permissions.
import { api, configure } from "./api.js"
import { createContext, useContext } from "./preact.js"

export const SessionContext = createContext(null)

/** {name, role, tenant_id, can(permission), tenant, chooseTenant, logOut}. */
export const useSession = () => useContext(SessionContext)

const TENANT = "posthouse.tenant"

export function loadSelectedTenant() {
  return sessionStorage.getItem(TENANT) || null
}

export function saveSelectedTenant(tenant) {
  if (tenant) sessionStorage.setItem(TENANT, tenant)
  else sessionStorage.removeItem(TENANT)
}

/** The session of this browser, a new one created from the ticket in the URL, or null. */
export async function restoreSession() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket")
  if (ticket) {
    history.replaceState(null, "", location.pathname + location.search)
    try {
      return toSession(await api.post("/session", { credential: ticket }))
    } catch { /* the ticket was used: its session may exist */ }
  }
  try {
    return toSession(await api.get("/session"))
  } catch (error) {
    if (error.status === 401) return null
    throw error
  }
}

export const logIn = async (credential) => toSession(await api.post("/session", { credential }))

export const logOut = () => api.delete("/session")

function toSession(session) {
  configure({ csrf: session.csrf_token })
  const permissions = new Set(session.permissions)
  return { ...session, operator: session.tenant_id === null, can: (permission) => permissions.has(permission) }
}
