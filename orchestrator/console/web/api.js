// Calls of the orchestrator's API. The credentials stay in this tab, and end with it.

const key = 'rideshare.authorization';
export const session = {
  get authorization() { return sessionStorage.getItem(key) ?? ''; },
  set authorization(value) { value ? sessionStorage.setItem(key, value) : sessionStorage.removeItem(key); },
};

// authorizationOf returns the header of a user with a password, or of a token if there is no user. A token that a header
// cannot carry is refused: fetch would fail as without an answer.
export function authorizationOf(user, secret) {
  if (!user) {
    const token = secret.trim();
    if (!/^[\x21-\x7e]+$/.test(token)) throw new APIError(401, 'The token is wrong: a token has no blanks, and letters, digits and signs of ASCII only.');
    return 'Bearer ' + token;
  }
  return 'Basic ' + btoa(String.fromCharCode(...new TextEncoder().encode(user + ':' + secret)));
}

export class APIError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// send never lets the browser add credentials or ask for them itself. A refusal of the credentials or of their role is
// told to the frame of the page as well.
async function send(method, path, { body, headers = {}, signal } = {}) {
  const all = { Accept: 'application/problem+json, application/json, text/event-stream', ...headers };
  if (session.authorization) all.Authorization = session.authorization;
  let answer;
  try {
    answer = await fetch(path, { method, body, headers: all, signal, credentials: 'omit', cache: 'no-store' });
  } catch (err) {
    throw err.name === 'AbortError' ? err : new APIError(0, 'The orchestrator does not answer.');
  }
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  const err = new APIError(answer.status, problem.detail || problem.title || 'Answer ' + answer.status);
  if (err.status === 401 || err.status === 403) dispatchEvent(new CustomEvent('unauthorized', { detail: err }));
  throw err;
}

// Whole is the text of an integer that a JavaScript number cannot hold. In JSON it is a number again.
class Whole extends String {
  toJSON() { return JSON.rawJSON(this.toString()); }
}

// whole keeps such integers.
function whole(_, value, context) {
  return typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? new Whole(context.source) : value;
}

// call returns the JSON of the answer, and the position of X-Seq.
export async function call(method, path, body, headers) {
  const answer = await send(method, path, { body: body === undefined ? undefined : JSON.stringify(body), headers });
  const text = await answer.text();
  return { data: text ? JSON.parse(text, whole) : null, seq: answer.headers.get('X-Seq'), cache: answer.headers.get('X-Cache') };
}

// query and execute run [SQL, parameters...] and return the first result, or throw its error. Every string is a text, also
// one that looks like a BLOB.
async function statement(path, parts) {
  const { data } = await call('POST', path, [parts], { 'X-Plain-Text': 'true' });
  if (data.results[0].error) throw new APIError(200, data.results[0].error);
  return data.results[0];
}
export const query = (...parts) => statement('/db/query', parts);
export const execute = (...parts) => statement('/db/execute', parts);

export async function text(path) { return (await send('GET', path)).text(); }

// stream calls opened once the stream is there, and each(type, data, id) for every server-sent event until the stream or
// signal ends.
export async function stream(path, each, { signal, headers, opened } = {}) {
  const answer = await send('GET', path, { signal, headers });
  opened?.();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let pending = '', event = {}; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (pending + value).split('\n');
    pending = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (event.data) each(event.event, JSON.parse(event.data), event.id);
        event = {};
        continue;
      }
      const colon = line.indexOf(': ');
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
    }
  }
}
