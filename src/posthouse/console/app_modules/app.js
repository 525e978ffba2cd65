// Entry point for the pages of applications.
import { site } from "posthouse/api.js"
import { Frame, start } from "posthouse/layout.js"
import { html } from "posthouse/preact.js"
import { links, matchRoute } from "posthouse/router.js"

/**
 * Shows the pages of an application in the layout of the console, after its login.
 *
 * - `name`: shown in the navigation and in titles.
 * - `routes`: {pattern, page, title, section}. A pattern such as "videos/:id" is relative to the application; the page is a
 *   component, which gets the parts of the pattern and `query`.
 *   Pages of the console can be routes too: their links to pages that the application does not have lead to the console.
 * - `sections`: {name, path, text, icon, needs} of the navigation; `needs` is a permission, such as "jobs:write".
 */
export function startApp({ name, routes, sections = [] }) {
  const apps = { name: "apps", href: site("/apps/"), text: "Applications", icon: "star", needs: "jobs:read" }
  const all = [...sections, apps, { name: "console", href: site("/console/"), text: "Console", icon: "pulse", needs: "jobs:read" }]
  const shell = ({ section, title, children }) => html`<${Frame} name=${name} sections=${all} section=${section} title=${title}>${children}<//>`
  const [own, console] = [links.base(), new URL(site("/console/")).pathname]
  links.base = (path) => (routes.some(({ pattern }) => matchRoute(pattern, path)) ? own : console)
  start({ routes, shell, name })
}
