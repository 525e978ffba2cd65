// Pages of the application: library with upload and search, and a page per video.
import { startApp } from "posthouse/app.js"
import { Library } from "./library.js"
import { Video } from "./video.js"

startApp({
  name: "Vision",
  sections: [{ name: "library", path: "", text: "Videos", icon: "play", needs: "jobs:read" }],
  routes: [
    { pattern: "", page: Library, title: "Videos", section: "library" },
    { pattern: "videos/:id", page: Video, title: "Video", section: "library" },
  ],
})
