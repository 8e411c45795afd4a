// ccmux's plugin for OpenCode: tells the daemon what happens in a session, so that it can tell you when you are waited for.
//
//   OpenCode --event--> shape (a few short fields) --line--> control.sock of ccmuxd
//
// It decides nothing and waits for nothing. Without a daemon it does nothing but remember the last lines; it connects
// again when there is something to tell. It writes no file, and nothing to the terminal. Of an error only its name and
// status go out, and one line if no provider answered; of a permission its kind; never headers, bodies or addresses.
import fs from "node:fs"
import net from "node:net"
import path from "node:path"

const INSTALLED = null
const DIRECTORY = process.env.CCMUX_RUNTIME_DIR || INSTALLED || "/tmp/ccmux"
const MOST_LINES = 256 // remembered while the daemon is away
const MOST_BYTES = 1 << 20 // that a daemon may leave unread
const MOST_CHARACTERS = 300 // of any text

const short = (value) => (typeof value === "string" ? value.slice(0, MOST_CHARACTERS) : undefined)

// One line of what an error says, without addresses. What a provider answered stands in the message, too: then none.
const ADDRESS = /:\/\/|@|:\d|\.([a-z]{2}|.*\/)/i
const message = (data) => {
  const line = short(data?.message)?.trim().split("\n")[0] ?? ""
  if (data?.responseBody || /^[{[<]/.test(line)) return undefined
  return line.split(/\s+/).map((word) => (ADDRESS.test(word) ? "(address)" : word)).join(" ") || undefined
}

// Why a model is asked again: the provider's own words go no further.
const REASONS =
  /^(rate limited|too many requests|provider is overloaded|internal server error|bad gateway|service unavailable|gateway timeout|cannot connect to api|unable to connect)/i

const session = (p) => ({
  sessionID: short(p.sessionID ?? p.info?.id),
  info: { parentID: short(p.info?.parentID), title: short(p.info?.title), directory: short(p.info?.directory) },
})
const permission = (p) => ({ sessionID: short(p.sessionID), id: short(p.id), permission: short(p.permission ?? p.action) })
const question = (p) => ({
  sessionID: short(p.sessionID),
  id: short(p.id),
  questions: [{ question: short(p.questions?.[0]?.question) }],
})
const answer = (p) => ({ sessionID: short(p.sessionID), requestID: short(p.requestID) })

// What is told of each event; nothing of any other.
const SHAPES = {
  "session.created": session,
  "session.updated": session,
  "session.deleted": session,
  "session.status": (p) => ({
    sessionID: short(p.sessionID),
    status: { type: short(p.status?.type), message: REASONS.exec(short(p.status?.message) ?? "")?.[0] },
  }),
  "session.idle": (p) => ({ sessionID: short(p.sessionID) }),
  "session.error": (p) => ({
    sessionID: short(p.sessionID),
    error: {
      name: short(p.error?.name),
      data: { message: message(p.error?.data), statusCode: Number(p.error?.data?.statusCode) || undefined },
    },
  }),
  "permission.asked": permission,
  "permission.v2.asked": permission,
  "permission.replied": answer,
  "permission.v2.replied": answer,
  "question.asked": question,
  "question.v2.asked": question,
  "question.replied": answer,
  "question.v2.replied": answer,
  "question.rejected": answer,
  "question.v2.rejected": answer,
  "message.updated": (p) => ({
    sessionID: short(p.sessionID ?? p.info?.sessionID),
    info: {
      id: short(p.info?.id),
      role: short(p.info?.role),
      finish: short(p.info?.finish),
      summary: p.info?.summary === true || undefined,
      error: p.info?.error ? { name: short(p.info.error.name) } : undefined,
    },
  }),
  "message.part.updated": (p) =>
    p.part?.type === "step-start"
      ? { sessionID: short(p.sessionID ?? p.part.sessionID), part: { type: "step-start" } }
      : undefined,
}

// Like every client: anybody could have made a directory in /tmp.
const isPrivate = () => {
  const found = fs.lstatSync(DIRECTORY, { throwIfNoEntry: false })
  return found?.isDirectory() && found.uid === process.getuid() && (found.mode & 0o077) === 0
}

export const Ccmux = async ({ directory }) => {
  const hello = {
    v: 1,
    type: "opencode",
    pid: process.pid,
    directory: short(directory),
    tmux: short(process.env.TMUX),
    pane: short(process.env.TMUX_PANE),
  }
  let socket, isUp = false, lines = []

  const connect = () => {
    if (socket || !isPrivate()) return
    const mine = (socket = net.connect(path.join(DIRECTORY, "control.sock")))
    const gone = () => {
      if (socket === mine) [socket, isUp] = [undefined, false]
    }
    mine.on("connect", () => {
      isUp = true
      mine.write(JSON.stringify(hello) + "\n" + lines.join(""))
      lines = []
    })
    mine.on("data", () => {})
    mine.on("error", gone)
    mine.on("close", gone)
    mine.unref()
  }

  const tell = (event) => {
    try {
      const line = JSON.stringify(event) + "\n"
      if (isUp && socket.writableLength < MOST_BYTES) return void socket.write(line)
      if (isUp) socket.destroy()
      if (lines.push(line) > MOST_LINES) lines.shift()
      connect()
    } catch {
      // Nothing of ours may disturb OpenCode.
    }
  }

  try {
    connect()
  } catch {}
  return {
    event: async ({ event }) => {
      const shape = SHAPES[event?.type]
      const properties = shape && shape(event.properties ?? {})
      if (properties) tell({ id: short(event.id), type: event.type, properties })
    },
    "chat.message": async (input, output) => {
      const written = (output?.parts ?? []).filter((part) => part.synthetic !== true)
      const text = written.map((part) => part.text).find((text) => typeof text === "string")
      const properties = {
        sessionID: short(input?.sessionID ?? output?.message?.sessionID),
        messageID: short(output?.message?.id),
        synthetic: written.length === 0,
        text: short(text),
      }
      tell({ type: "chat.message", properties })
    },
  }
}
