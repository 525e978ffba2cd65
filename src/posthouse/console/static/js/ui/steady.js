// Keeps the order of rows stable while a list is polled.
import { useRef } from "../lib.js"

/**
 * The items in the order in which they first appeared; new items come first.
 * `scope` identifies the list; another scope resets the order.
 */
export function useSteady(items, keyOf, scope = "") {
  const known = useRef({ scope: null, places: new Map(), next: 0 })
  if (!items) return items
  if (known.current.scope !== scope) known.current = { scope, places: new Map(), next: 0 }
  const { places } = known.current
  const fresh = items.filter((item) => !places.has(keyOf(item)))
  for (const item of fresh.reverse()) places.set(keyOf(item), --known.current.next)
  return [...items].sort((one, other) => places.get(keyOf(one)) - places.get(keyOf(other)))
}
