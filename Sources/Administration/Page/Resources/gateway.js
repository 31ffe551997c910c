// Asking the gateway. A request carries the page's half of the session; the cookie is the other half, which no script sees.

const storage = "attestgate-page-key", levelStorage = "attestgate-page-level"

/** An answer that refuses, or (status 0) none at all. */
export class Refusal extends Error {
  constructor(status, code, description) {
    super(description)
    Object.assign(this, { status, code })
  }
}

// In this tab alone, and nothing without the cookie. The token is kept nowhere.
export const isSignedIn = () => sessionStorage.getItem(storage) !== null
export const forgetSession = () => sessionStorage.removeItem(storage)

async function send(path, method, key, content) {
  const headers = key === null ? {} : { "attestgate-page": key }
  if (content !== undefined) headers["content-type"] = "application/json"
  let response, text
  try {
    response = await fetch(path, {
      method, headers, body: content === undefined ? undefined : JSON.stringify(content), cache: "no-store",
      credentials: "same-origin", redirect: "error", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(6_000),
    })
    text = await response.text()
  } catch {
    throw new Refusal(0, "unreachable", "The gateway does not answer.")
  }
  if (response.ok) return text
  let fault = {}
  try { fault = JSON.parse(text) } catch { /* Not ours: the status must do. */ }
  throw new Refusal(response.status, fault.error ?? "unknown", fault.error_description ?? `Status ${response.status}.`)
}

export const ask = (path, method = "GET") => send(path, method, sessionStorage.getItem(storage) ?? "none")
export const askJSON = async (path, method) => JSON.parse(await ask(path, method))

export const needsToken = async () => JSON.parse(await send("/session", "GET", null)).token_needed

/** What this listener lets one do who has signed in: `admin` or `view`. */
export const level = () => sessionStorage.getItem(levelStorage)

/** - token: null where a certificate does for one. */
export async function signIn(token) {
  const answer = JSON.parse(await send("/session", "POST", "sign-in", token === null ? {} : { token }))
  sessionStorage.setItem(storage, answer.key)
  sessionStorage.setItem(levelStorage, answer.level)
}

export async function signOut() {
  try { await ask("/session/end", "POST") } finally { forgetSession() }
}
