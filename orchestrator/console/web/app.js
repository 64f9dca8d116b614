// The frame of the page: views, the live stream, and who is signed in.

import { APIError, authorizationOf, call, session, stream } from './api.js';
import { clock, field, h, outcome, setText } from './ui.js';
import { overview } from './overview.js';
import { workers } from './workers.js';
import { scaling } from './scaling.js';
import { forget, sql } from './sql.js';
import { rides } from './rides.js';
import { events } from './events.js';
import { settings } from './settings.js';

const views = { overview, workers, scaling, sql, rides, events, settings };
const titles = { overview: 'Overview', workers: 'Workers', scaling: 'Scaling', sql: 'SQL', rides: 'Rides', events: 'Events', settings: 'Settings' };
const ranks = { read: 1, write: 2, admin: 3 };
const kept = 15 * 60 * 1000; // how long a point is shown, in milliseconds
const silence = 3500; // a live stream without an event for so long is dead

const main = document.getElementById('main');
const banner = document.getElementById('banner');

// app is what views see: who is signed in, the points of the last 15 minutes, and the newest state of the system.
export const app = {
  me: null, points: [], state: null, alive: true, refused: '', lastSeen: 0, // refused tells why there is no live stream
  stale: false, lastRead: 0, // stale: the workers could not be read now, and state.cluster is that of lastRead
  may(role) { return this.me !== null && ranks[this.me.role] >= ranks[role]; },
};

let view = null; // {element, update, close} of the shown view

// open shows the view that the address names; above it a refusal, if there is one.
function open(refusal) {
  const name = location.hash.slice(1) in views ? location.hash.slice(1) : 'overview';
  view?.close?.();
  view = views[name](app);
  document.title = titles[name] + ' – rideshare';
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === '#' + name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  main.replaceChildren(...refusal ? [h('p', { class: 'outcome bad', role: 'alert' }, refusal.message)] : [], view.element);
  refresh();
}

function refresh() {
  const health = app.state?.health ?? [];
  const named = (word, which) => which.length > 0 ? [word + ': ' + which.map((condition) => condition.name).join(', ')] : [];
  const missing = health.filter((condition) => !condition.ok && !condition.starting);
  const lacks = [...named('missing', missing), ...named('starting', health.filter((condition) => condition.starting))];
  const line = document.getElementById('health');
  line.className = !app.alive || missing.length > 0 ? 'bad' : app.refused || lacks.length > 0 ? 'warn' : health.length > 0 ? 'good' : '';
  setText(line, !app.alive ? 'no answer' : app.refused ? 'not live' : lacks.length > 0 ? lacks.join('; ') : health.length > 0 ? 'ready' : '');
  document.body.classList.toggle('dead', !app.alive);
  banner.hidden = app.alive && !app.refused && !app.stale;
  if (!app.alive) {
    setText(banner, app.lastSeen ? `The orchestrator has not answered since ${clock(app.lastSeen)}. The page shows what it knew then, and asks on.` : 'The orchestrator does not answer. The page asks on.');
  } else if (app.refused) {
    setText(banner, `There are no live data: ${app.refused}`);
  } else if (app.stale) {
    setText(banner, app.lastRead ? `The workers cannot be read now. They are shown as they were at ${clock(app.lastRead)}.` : 'The workers cannot be read yet.');
  }
  for (const button of document.querySelectorAll('button.act')) button.disabled = !app.alive || 'busy' in button.dataset;
  view?.update?.();
}

let live = null; // the AbortController of the live stream

async function follow() {
  while (live === null && !document.hidden && app.me !== null) {
    const mine = live = new AbortController();
    let quiet;
    let refused = '';
    const seen = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => mine.abort(), silence);
    };
    seen();
    try {
      await stream('/api/v1/live', (type, data) => {
        seen();
        app.alive = true;
        app.refused = '';
        if (type === 'history') {
          app.points = data;
        } else {
          app.lastSeen = Date.now();
          app.stale = data.state.cluster === null;
          if (app.stale) data.state.cluster = app.state?.cluster ?? null;
          else app.lastRead = app.lastSeen;
          app.state = data.state;
          app.points.push(data.point);
          app.points = app.points.filter((point) => point.at > data.point.at - kept);
        }
        refresh();
      }, { signal: mine.signal });
    } catch (err) {
      if (err instanceof APIError && err.status === 401) return signIn(err);
      if (err instanceof APIError && err.status > 0) refused = err.message; // an answer, too
    } finally {
      clearTimeout(quiet);
      live = null;
    }
    if (document.hidden || app.me === null) return;
    app.alive = refused !== '';
    app.refused = refused;
    refresh();
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

// A hidden page has no stream: a browser has few connections for each host.
document.addEventListener('visibilitychange', () => document.hidden ? live?.abort() : follow());
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // the address names the view
  main.focus();
});
addEventListener('hashchange', () => { if (app.me !== null) open(); });
addEventListener('unauthorized', (event) => askAgain(event.detail));

let asking = false;

// askAgain finds out whether a refusal comes from another role than the page knows. Only then does it change what is shown,
// so that a view which is refused is not opened again and again.
async function askAgain(refusal) {
  const before = app.me;
  if (before === null || asking) return;
  asking = true;
  try {
    const me = (await call('GET', '/api/v1/whoami')).data;
    if (app.me !== before) return;
    if (me.role === 'none') return signIn(refusal);
    app.me = me;
    showWho();
    if (me.role !== before.role) open(refusal);
  } catch {
    // The next refusal asks again.
  } finally {
    asking = false;
  }
}

function signIn(reason) {
  const signedIn = app.me !== null;
  session.authorization = '';
  Object.assign(app, { me: null, alive: true, refused: '', stale: false });
  view?.close?.();
  view = null;
  if (signedIn) forget(); // otherwise this is a new tab, and the statements are those of another one
  refresh();
  const user = h('input', { id: 'user', autocomplete: 'username', autocapitalize: 'none', spellcheck: 'false' });
  const secret = h('input', { id: 'secret', type: 'password', required: true, autocomplete: 'current-password' });
  const said = outcome();
  const button = h('button', { class: 'primary' }, 'Sign in');
  const form = h('form', {
    class: 'panel sign-in',
    onsubmit: (event) => {
      event.preventDefault();
      said.run(button, () => {
        session.authorization = authorizationOf(user.value, secret.value);
        return start();
      });
    },
  }, h('h2', {}, 'Sign in'), h('p', { class: 'muted' }, 'This orchestrator asks for credentials. They are kept in this tab only, and end with it.'),
  field('User', user, 'leave empty for a token'), field('Password or token', secret), button, said.element);
  if (reason.message) said.bad(reason);
  main.replaceChildren(form);
  setText(document.getElementById('who'), '');
  document.querySelector('nav').hidden = true;
  user.focus();
}

const abilities = { read: 'may look and read', write: 'may read and write', admin: 'may do everything' };

function showWho() {
  const who = document.getElementById('who');
  const text = !app.me.credentials ? 'open to everybody: no AUTH_FILE' : `${app.me.name || 'token'}: ${app.me.role}, ${abilities[app.me.role]}`;
  who.replaceChildren(text);
  if (app.me.credentials) who.append(' ', h('button', { type: 'button', class: 'link', onclick: () => { live?.abort(); signIn(new Error('')); } }, 'Sign out'));
}

// start finds out who is signed in, and shows the view. It throws if the credentials are wrong.
async function start() {
  const me = (await call('GET', '/api/v1/whoami')).data;
  if (me.role === 'none') {
    const wrong = session.authorization !== '';
    session.authorization = '';
    throw new APIError(401, wrong ? 'The user, password or token is wrong.' : '');
  }
  app.me = me;
  showWho();
  document.querySelector('nav').hidden = false;
  open();
  follow();
}

document.querySelector('nav').append(...Object.keys(views).map((name) => h('a', { href: '#' + name }, titles[name])));
start().catch(function failed(err) {
  if (err.status === 401) return signIn(err);
  app.alive = err.status !== 0;
  if (app.alive) main.replaceChildren(h('p', { class: 'outcome bad' }, err.message));
  refresh();
  setTimeout(() => start().catch(failed), 1000);
});
