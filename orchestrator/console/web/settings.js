// Settings: what this orchestrator's process and the parts that it calls run with, and what a report of a problem needs.

import { call, stream, text } from './api.js';
import { download, h, loaded, outcome, panel, table } from './ui.js';

const sources = { default: 'default', environment: 'environment', flag: 'command line' };

// lastEvents returns the events that the orchestrator keeps: a reset comes first, then they come at once, and then the
// stream is silent.
async function lastEvents() {
  const found = [];
  const enough = new AbortController();
  let quiet = setTimeout(() => enough.abort(new Error('No event came within 10 s.')), 10000);
  try {
    await stream('/api/v1/events', (type, data) => {
      found.push({ type, data });
      clearTimeout(quiet);
      quiet = setTimeout(() => enough.abort(), 300);
    }, { signal: enough.signal, headers: { 'Last-Event-ID': '0' } });
    throw new Error('The stream of events ended early.');
  } catch (err) {
    if (found.length === 0 || !enough.signal.aborted) throw err;
  }
  return found;
}

function settingsTable(all) {
  return table([['Setting', 'long'], ['Value'], ['Source', 'short'], ['Environment', 'long']], all.map((one) => [one.name, one.value || h('span', { class: 'muted' }, 'none'),
    h('span', { class: one.source === 'default' ? 'muted' : 'set' }, sources[one.source]), one.env || '–']), 'Not known.');
}

export function settings(app) {
  const said = outcome();
  const about = h('div', {});
  const list = h('div', {});
  const licences = h('div', {});
  const button = h('button', { type: 'button', class: 'act', onclick: () => said.run(button, bundle) }, 'Download support bundle');

  // bundle saves what the signed-in role may see. A part that cannot be had is saved as its error, and named in the message; a part that
  // this orchestrator does not have, which is answered 404, only has its error.
  async function bundle() {
    const paths = { settings: '/api/v1/settings', cluster: '/api/v1/cluster', scaling: '/api/v1/scaling', decisions: '/api/v1/scaling/decisions', cache: '/api/v1/cache', status: '/status' };
    const parts = Object.entries(paths).map(([name, path]) => [name, call('GET', path).then(({ data }) => data)]);
    parts.push(['metrics', text('/metrics')], ['events', lastEvents()]);
    const out = { made_at: new Date().toISOString(), points: app.points };
    const lacking = [];
    await Promise.all(parts.map(async ([name, part]) => {
      out[name] = await part.catch((err) => {
        if (err.status !== 404) lacking.push(`${name} (${err.message})`);
        return { error: err.message };
      });
    }));
    download(`rideshare-support-${out.made_at.slice(0, 19).replaceAll(':', '')}.json`, 'application/json', JSON.stringify(out, null, 1));
    if (lacking.length > 0) throw new Error('The bundle was saved without ' + lacking.join(', '));
    return 'The bundle has settings without secrets, cluster, decisions, metrics and the last events. It has no rows.';
  }
  async function showSettings() {
    const { data } = await call('GET', '/api/v1/settings');
    about.replaceChildren(h('p', {}, 'rideshare ', h('b', {}, data.version), ', built with ', h('b', {}, data.go)));
    list.replaceChildren(settingsTable(data.settings ?? []), ...data.parts.map(({ part, instance, settings, error }) => h('details', {},
      h('summary', {}, h('b', {}, part), ' ', instance, error ? h('span', { class: 'bad' }, ' not known') : null),
      error ? h('p', { class: 'bad' }, error) : settingsTable(settings))));
    licences.replaceChildren(table([['Module', 'long'], ['Version'], ['Licence', 'short']], (data.modules ?? []).map((one) => [one.path, one.version, one.licence])));
  }
  loaded(said, showSettings).catch(() => {}); // The view is gone.
  return {
    element: h('div', { class: 'view' },
      panel('About', about, h('p', { class: 'buttons' }, button), said.element),
      h('div', { class: 'charts' },
        panel('Settings', h('p', { class: 'muted' }, 'First those of the process that serves this page; with rideshare up that is the whole system. Then those of persdb, the launchers and the workers, as far as they are processes of their own. users, rides and gateway write theirs into their logs at the start, and another orchestrator shows its own.'), list),
        panel('Licences of dependencies', licences))),
  };
}
