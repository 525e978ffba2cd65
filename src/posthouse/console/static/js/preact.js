// Preact, its hooks and the html template tag.
import { createContext, h, render } from "preact"

import htm from "htm"

export { createContext, render }
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"

/** Template tag for elements. Values in `${}` become text or elements, never markup. */
export const html = htm.bind(h)

/** Joins class names and skips falsy ones. */
export const cls = (...names) => names.filter(Boolean).join(" ")
