// Client of the HTTP API: requests, polling hooks, and validation of drafts.
import { useCallback, useEffect, useRef, useState } from "./lib.js"

const SITE = new URL(document.documentElement.dataset.root, location.href)
const ROOT = new URL("api/v1/", SITE)
const DEFAULT_MESSAGE = "Cannot reach the server. Check that it is running, then try again."

/** An error response of the API: its message, its code and the invalid fields. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || DEFAULT_MESSAGE)
    this.status = status
    this.code = body?.code || "no_answer"
    this.errors = body?.errors || []
    this.body = body
  }
}

export const state = { csrf: null, tenant: null, onLogout: () => {} }

export const configure = (changes) => Object.assign(state, changes)

/** The URL of a path outside of the API, such as the route of an application: `api.get(site("/shop/orders"))`. */
export const site = (path) => new URL(path.replace(/^\//, ""), SITE).href

/** The URL of an API path, with the tenant that the operator has selected. */
export function address(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), ROOT)
  if (state.tenant) url.searchParams.set("tenant", state.tenant)
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue
    for (const item of Array.isArray(value) ? value : [value]) url.searchParams.append(name, item)
  }
  return url.href
}

async function ask(method, path, { query, body, headers, signal } = {}) {
  const given = { Accept: "application/json", ...headers }
  if (body !== undefined) given["Content-Type"] = "application/json"
  if (method !== "GET" && state.csrf) given["X-CSRF-Token"] = state.csrf
  let answer
  try {
    answer = await fetch(address(path, query), {
      method, headers: given, signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    })
  } catch (error) {
    if (error.name === "AbortError") throw error
    throw new Problem(0, null)
  }
  const told = parsed(await answer.text(), answer.headers.get("content-type"))
  if (answer.status === 401 && !path.startsWith("/session")) state.onLogout()
  if (!answer.ok) throw new Problem(answer.status, told)
  return told
}

export const api = {
  get: (path, query, signal) => ask("GET", path, { query, signal }),
  post: (path, body, options) => ask("POST", path, { body, ...options }),
  put: (path, body, options) => ask("PUT", path, { body, ...options }),
  patch: (path, body, options) => ask("PATCH", path, { body, ...options }),
  delete: (path, query) => ask("DELETE", path, { query }),
}

export const parsed = (text, type) => (text && type?.includes("json") ? JSON.parse(text) : null)

/**
 * Fetches `path` and returns {data, error, loading, reload, setData}. Previous data is kept while a reload is in
 * flight; `every` reloads after that many milliseconds while the page is visible. A path of null fetches nothing.
 * The result is `stale` while it belongs to a previous path or query.
 */
export function useApi(path, query, { every = 0 } = {}) {
  const [state, setState] = useState({ data: null, error: null, loading: path !== null })
  const key = path === null ? null : address(path, query)
  const round = useRef(null)
  const load = useCallback(async () => {
    if (key === null) return
    round.current?.abort()
    const mine = (round.current = new AbortController())
    try {
      const data = await api.get(path, query, mine.signal)
      setState({ data, error: null, loading: false, key })
    } catch (error) {
      if (error.name !== "AbortError") setState((was) => ({ ...was, error, loading: false }))
    }
  }, [key])
  useEffect(() => {
    setState((was) => ({ ...was, loading: key !== null }))
    load()
    return () => round.current?.abort()
  }, [load])
  useEffect(() => {
    if (!every) return undefined
    const timer = setInterval(() => document.hidden || load(), every)
    return () => clearInterval(timer)
  }, [load, every])
  const setData = useCallback((change) => setState((was) => ({ ...was, data: typeof change === "function" ? change(was.data) : change })), [])
  return { ...state, stale: state.key !== key, reload: load, setData }
}

// Validates a draft with the API while it is edited; nothing is stored.

const PAUSE = 250

/** {data, error} of a POST of `body` to `path`, after a pause in typing. Previous data is kept until the next response. */
export function useTrial(path, body, query) {
  const [state, setState] = useState({ data: null, error: null })
  const key = path && JSON.stringify([path, body, query])
  useEffect(() => {
    if (!key) return undefined
    const round = new AbortController()
    const timer = setTimeout(async () => {
      try {
        setState({ data: await api.post(path, body, { query, signal: round.signal }), error: null })
      } catch (error) {
        if (error.name !== "AbortError") setState((was) => ({ ...was, error }))
      }
    }, PAUSE)
    return () => {
      clearTimeout(timer)
      round.abort()
    }
  }, [key])
  return state
}

/** {path: message} of the validation errors; the first of each path. */
export const faultsByPath = (faults = []) => Object.fromEntries([...faults].reverse().map(({ path, message }) => [path, message]))
