// Events: changes of roles, members and scale, as they happen.

import { stream } from './api.js';
import { field, h, outcome, panel } from './ui.js';

const most = 1024; // as many as an orchestrator keeps

function describe(type, data) {
  if (type === 'scale') return data.slaves === 1 ? '1 slave is wanted' : `${data.slaves} slaves are wanted`;
  if (type === 'role') return `${data.change === 'found' ? 'was found as' : 'was made'} ${data.role}` + (data.epoch ? `, epoch ${data.epoch}` : '');
  if (type === 'breaker' || type === 'limit') return `${data.name}: ${data.from} → ${data.to}` + (data.why ? `, ${data.why}` : '');
  if (type !== 'membership') return JSON.stringify(data);
  const how = data.exit_code === undefined ? '' : data.exit_code === 137 ? ' (killed)' : `, exit code ${data.exit_code}`;
  return { serving: `serves as ${data.role}`, leaving: 'is leaving', lost: 'lost its registration', died: 'died' + how }[data.change] ?? data.change;
}

export function events(app) {
  let last = '0'; // a bare number makes the orchestrator send all that it keeps
  const ended = new AbortController();
  const body = h('tbody', {});
  const empty = h('p', { class: 'muted', hidden: true }, 'No events yet.'); // until it is known
  const said = outcome();
  const kind = h('select', {}, ['all', 'role', 'membership', 'scale', 'breaker', 'limit'].map((name) => h('option', {}, name)));
  const worker = h('input', { type: 'search', placeholder: 'pid or id' });
  const filter = () => {
    for (const row of body.rows) row.hidden = !(kind.value === 'all' || row.dataset.kind === kind.value) || !row.dataset.worker.includes(worker.value.trim());
  };
  kind.addEventListener('change', filter);
  worker.addEventListener('input', filter);
  const element = h('div', { class: 'view' }, panel('Events',
    h('div', { class: 'fields' }, field('Kind', kind), field('Worker', worker)),
    h('div', { class: 'scroll' }, h('table', { class: 'cards' }, h('thead', {}, h('tr', {}, ['Time', 'Kind', 'Worker', 'What'].map((t) => h('th', { scope: 'col' }, t)))), body)), empty, said.element,
    h('p', { class: 'muted' }, 'These are the last 1,024 events that this orchestrator saw since its start, newest first.')));

  function add(type, data, id) {
    last = id;
    empty.hidden = type !== 'reset';
    if (type === 'reset') { body.replaceChildren(); return; }
    const row = h('tr', { 'data-kind': type, 'data-worker': data.pid === undefined ? '' : `${data.pid} ${data.worker}` },
      h('td', { class: 'time', 'data-label': 'Time' }, data.at ? new Date(data.at).toLocaleString('en-GB') : ''), h('td', { 'data-label': 'Kind' }, type),
      h('td', { title: data.worker ?? null, 'data-label': 'Worker' }, data.pid === undefined ? '–' : String(data.pid)),
      h('td', { class: data.change === 'died' || data.change === 'lost' ? 'long bad' : 'long', 'data-label': 'What' }, describe(type, data)));
    body.prepend(row);
    while (body.rows.length > most) body.rows[most].remove();
    filter();
  }
  function opened() {
    said.clear();
    empty.hidden = body.rows.length > 0;
  }
  (async () => {
    while (!ended.signal.aborted) {
      await stream('/api/v1/events', add, { signal: ended.signal, headers: { 'Last-Event-ID': last }, opened }).catch((err) => {
        empty.hidden = true;
        said.bad(err);
      });
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  })();
  return { element, close: () => ended.abort() };
}
