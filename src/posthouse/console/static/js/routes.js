// Routes. `section` is the navigation entry that a page belongs to.
import { Overview } from "./pages/overview.js"
import { Jobs } from "./pages/jobs.js"
import { Job } from "./pages/job.js"
import { Failures } from "./pages/failures.js"
import { Workers } from "./pages/workers.js"
import { Queues } from "./pages/queues.js"
import { Triggers } from "./pages/triggers.js"
import { Definitions } from "./pages/definitions.js"
import { Operator } from "./pages/operator.js"

export const ROUTES = [
  { pattern: "", page: Overview, title: "Overview", section: "overview" },
  { pattern: "jobs", page: Jobs, title: "Jobs", section: "jobs" },
  { pattern: "jobs/:id", page: Job, title: "Job", section: "jobs" },
  { pattern: "failures", page: Failures, title: "Failures", section: "failures" },
  { pattern: "failures/:fingerprint", page: Failures, title: "Failure group", section: "failures" },
  { pattern: "workers", page: Workers, title: "Workers", section: "workers" },
  { pattern: "queues", page: Queues, title: "Queues and limits", section: "queues" },
  { pattern: "triggers", page: Triggers, title: "Triggers", section: "triggers" },
  { pattern: "triggers/:id", page: Triggers, title: "Trigger", section: "triggers" },
  { pattern: "definitions", page: Definitions, title: "Definitions", section: "definitions" },
  { pattern: "definitions/:name", page: Definitions, title: "Definition", section: "definitions" },
  { pattern: "operator", page: Operator, title: "Operator", section: "operator" },
  { pattern: "operator/:tab", page: Operator, title: "Operator", section: "operator" },
]
