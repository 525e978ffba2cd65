// What every part of the console is made of.
import { createContext, h, render } from "preact"
import htm from "htm"

export { createContext, render }
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"

/** Text that becomes elements. What stands in `${}` is always text or elements, never markup. */
export const html = htm.bind(h)

/** Class names, leaving out what is false. */
export const cls = (...names) => names.filter(Boolean).join(" ")
