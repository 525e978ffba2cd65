// Pages of the application: library with upload, a page per video, and the workers with their progress.
import { startApp } from "posthouse/app.js"
import { Admin } from "./admin.js"
import { Library } from "./library.js"
import { Watch } from "./watch.js"

startApp({
  name: "Vlog",
  sections: [
    { name: "library", path: "", text: "Videos", icon: "play", needs: "jobs:read" },
    { name: "admin", path: "admin", text: "Transcoding", icon: "cpu", needs: "jobs:read" },
  ],
  routes: [
    { pattern: "", page: Library, title: "Videos", section: "library" },
    { pattern: "videos/:id", page: Watch, title: "Video", section: "library" },
    { pattern: "admin", page: Admin, title: "Transcoding", section: "admin" },
  ],
})
