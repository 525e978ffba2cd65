// Page of the application: search as you type, coverage, queue and savings.
import { startApp } from "posthouse/app.js"
import { Search } from "./search.js"

startApp({
  name: "Embeddings",
  sections: [{ name: "search", path: "", text: "Rules", icon: "search", needs: "jobs:read" }],
  routes: [{ pattern: "", page: Search, title: "Rules", section: "search" }],
})
