// Asks the API about something while it is being written; nothing is stored by it.
import { api } from "../api.js"
import { useEffect, useState } from "../lib.js"

const PAUSE = 250

/** {data, error} of what `path` says to `body`, once somebody pauses. Earlier answers stay until newer ones come. */
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

/** {path: message} of the faults that the API found; the first of each. */
export const faultsByPath = (faults = []) => Object.fromEntries([...faults].reverse().map(({ path, message }) => [path, message]))
