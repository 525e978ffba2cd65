// Pages of the application: the gallery of a tenant, and its jobs and triggers.
import { startApp } from "posthouse/app.js"
import { Job } from "posthouse/pages/job.js"
import { Gallery } from "./gallery.js"
import { Queue, TriggerTab } from "./jobs.js"

startApp({
  name: "Photos",
  sections: [
    { name: "gallery", path: "", text: "Gallery", icon: "layers", needs: "jobs:read" },
    { name: "jobs", path: "jobs", text: "Jobs", icon: "list", needs: "jobs:read" },
  ],
  routes: [
    { pattern: "", page: Gallery, title: "Gallery", section: "gallery" },
    { pattern: "jobs", page: Queue, title: "Jobs", section: "jobs" },
    { pattern: "jobs/:id", page: Job, title: "Job", section: "jobs" },
    { pattern: "triggers", page: TriggerTab, title: "Triggers", section: "jobs" },
    { pattern: "triggers/:id", page: TriggerTab, title: "Trigger", section: "jobs" },
  ],
})
