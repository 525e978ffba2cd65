// Pages of the application: all calls with upload and search, and a page per call.
import { startApp } from "posthouse/app.js"
import { Call } from "./call.js"
import { Library } from "./library.js"

startApp({
  name: "Calls",
  sections: [{ name: "calls", path: "", text: "Calls", icon: "list", needs: "jobs:read" }],
  routes: [
    { pattern: "", page: Library, title: "Calls", section: "calls" },
    { pattern: "calls/:id", page: Call, title: "Call", section: "calls" },
  ],
})
