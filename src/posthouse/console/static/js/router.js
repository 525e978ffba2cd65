// Routing: the URL names the page and its query.
import { useEffect, useState } from "./preact.js"

const BASE = new URL(document.baseURI).pathname
const listeners = new Set()

const currentLocation = () => ({ path: location.pathname.slice(BASE.length).replace(/\/$/, ""), query: Object.fromEntries(new URLSearchParams(location.search)) })

/** `base(path)`: the address that the path of a page is below. Applications replace it, see app.js. */
export const links = { base: () => BASE }

/** The address of a page, for links. */
export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "")
  const text = new URLSearchParams(given).toString()
  return links.base(path) + path + (text ? `?${text}` : "")
}

export function navigate(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href)
  for (const listener of listeners) listener()
}

/** Changes the query of the URL; null removes a parameter. */
export function setQuery(changes, options) {
  const { path, query } = currentLocation()
  navigate(link(path, { ...query, ...changes }), options)
}

export function useLocation() {
  const [current, setCurrent] = useState(currentLocation)
  useEffect(() => {
    const moved = () => setCurrent(currentLocation())
    listeners.add(moved)
    addEventListener("popstate", moved)
    return () => {
      listeners.delete(moved)
      removeEventListener("popstate", moved)
    }
  }, [])
  return current
}

/** Clicks on links of the console stay in the page. */
export function handleLinkClick(event) {
  const anchor = event.target.closest?.("a[href]")
  const aside = event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey
  if (!anchor || aside || anchor.target || anchor.hasAttribute("download")) return
  const to = new URL(anchor.href)
  if (to.origin !== location.origin || !to.pathname.startsWith(BASE)) return
  event.preventDefault()
  navigate(to.pathname + to.search + to.hash)
  if (!anchor.closest("[data-stay]")) scrollTo(0, 0)
}

/** {name} of a pattern like "jobs/:id" in a path, or null. */
export function matchRoute(pattern, path) {
  const [wanted, given] = [pattern.split("/"), path.split("/")]
  if (wanted.length !== given.length) return null
  const found = {}
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(":")) found[part.slice(1)] = decodeURIComponent(given[index])
    else if (part !== given[index]) return null
  }
  return found
}
